// SPDX-License-Identifier: MIT
// Broken files of every kind end in a UserError or an experiment: never in a crash, a hang or another exception.
#include "config/config_fixture.h"

#include <sstream>

namespace ddprun {
namespace {

const std::string kSeedText =
    "name: \"run-${seed}\"\nseed: 42\ndefaults: [model/convnet, {optimizer: sgd}]\n"
    "model: &m {plugin: convnet, dropout: 0.5, sizes: [1, 2, {a: 'b'}]}\ndataset: {plugin: mnist}\n"
    "optimizer:\n  plugin: sgd\n  lr: 1e-2\nloggers: [console, {plugin: tb, histograms: true}]\n"
    "objective: {name: cross_entropy, weights: ~}\ntrainer:\n  max_epochs: ${env:NO_SUCH_VARIABLE,10}\n  global_batch: "
    "64\n"
    "early_stopping: {monitor: val/accuracy, target: 0.99}\ncheckpoint: {every: 1ep}\n"
    "text: |\n  one\n  two\nother: *m\nrun: {dir: '${now:%Y}/\\${x}'}\n";

// What is put into a text, between tildes.
const std::string kPieces =
    "${~}~{~[~]~: ~\n~- ~&m ~*m~<<: *m\n~\t~'~\"~#~? ~|\n~>\n~---~!~%~\xFF~\x04~null~${seed}~${model}~"
    "defaults: [e]\n~999999999999999999999~nan~\\~";

std::vector<std::string> pieces() {
  std::istringstream stream(kPieces);
  std::vector<std::string> found;
  for (std::string piece; std::getline(stream, piece, '~');) found.push_back(piece);
  return found;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : state_(seed * 2654435761U + 1) {}

  std::string mutated(std::string text) {
    for (auto changes = 1 + below(4); changes > 0; --changes) {
      const auto at = below(text.size() + 1);
      switch (below(5)) {
        case 0: text.insert(at, pieces_[below(pieces_.size())]); break;
        case 1: text.erase(at, 1 + below(8)); break;
        case 2: text.insert(at, text.substr(below(text.size() + 1), below(40))); break;
        case 3:
          if (at < text.size()) text[at] = static_cast<char>(below(256));
          break;
        default: text.resize(at); break;
      }
    }
    return text;
  }

 private:
  size_t below(size_t bound) {
    state_ = state_ * 1664525U + 1013904223U;
    return bound ? (state_ >> 8) % bound : 0;
  }
  std::vector<std::string> pieces_ = pieces();
  uint32_t state_;
};

using MutatedYaml = ConfigFixture;

TEST_F(MutatedYaml, NeverDoesMoreThanFail) {
  write("model/convnet.yaml", "plugin: convnet\n");
  write("optimizer/sgd.yaml", "plugin: sgd\n");
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const auto text = Mutator(seed).mutated(kSeedText);
    write("e.yaml", text);
    EXPECT_NO_THROW(error_of([] { load_experiment({.experiment = "e.yaml"}); })) << text;
  }
}

TEST_F(MutatedYaml, SurvivesItsOwnRoundTrip) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    write("a.yaml", Mutator(seed).mutated(kSeedText));
    std::string once;
    if (!error_of([&] { once = to_yaml(load_yaml("a.yaml"), true); }).empty()) continue;
    write("b.yaml", once);
    EXPECT_EQ(to_yaml(load_yaml("a.yaml"), false), to_yaml(load_yaml("b.yaml"), false));
  }
}

TEST_F(MutatedYaml, OverridesNeverDoMoreThanFail) {
  const std::string override_text = "++loggers[1].histograms={a: [1, '${seed}'], plugin: x}";
  write("e.yaml", kMinimal + "loggers: [a, b]\n");
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const auto text = Mutator(seed).mutated(override_text);
    EXPECT_NO_THROW(error_of([&] { load_experiment({.experiment = "e.yaml", .overrides = {text}}); })) << text;
  }
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "weights/pretrained_weights.h"

#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "support/toy.h"
#include "weights/weight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// hidden [16, 8], output [3, 16], with biases.
std::shared_ptr<Model> toy() {
  auto model = std::make_shared<testing::ToyModel>();
  model->prepare({.sample_shape = {8}, .classes = 3});
  return model;
}

TensorDict saved() {
  torch::manual_seed(5);
  return {{"hidden.weight", torch::randn({16, 8})},
          {"hidden.bias", torch::randn({16})},
          {"output.weight", torch::randn({3, 16})},
          {"output.bias", torch::randn({3})}};
}

NamePatterns patterns(std::vector<std::string> patterns, const std::string& key = "skip") {
  return {std::move(patterns), "e.yaml:3:7: pretrained." + key + ": "};
}

PretrainedConfig config() {
  PretrainedConfig config;
  config.file = "w.safetensors";
  config.file_place = "e.yaml:3:1: pretrained.file: ";
  config.rename_place = "e.yaml:3:5: pretrained.rename: ";
  return config;
}

std::string refusal(const TensorDict& tensors, const PretrainedConfig& pretrained) {
  return error_of([&] { load_pretrained(*toy(), pretrained, tensors); });
}

TEST(PretrainedWeights, AreCopiedByNameAfterEachRenaming) {
  TensorDict prefixed;
  for (const auto& [name, tensor] : saved()) prefixed["module.net." + name] = tensor;
  auto with = config();
  with.rename = {{"^module\\.", ""}, {"^net\\.(.*)", "$1"}};
  const auto model = toy();
  const auto done = load_pretrained(*model, with, prefixed);
  EXPECT_EQ(done.loaded, 4);
  EXPECT_TRUE(torch::equal(model->named_parameters()["output.bias"], saved().at("output.bias")));
  EXPECT_EQ(done.text(with.file), "4 tensors loaded from w.safetensors, none new");
}

TEST(PretrainedWeights, BeginAnewWhereSkipSaysSoEvenIfTheyFit) {
  auto other_classes = saved();
  other_classes["output.weight"] = torch::randn({5, 16});
  other_classes["gate.weight"] = torch::randn({2});
  auto with = config();
  with.skip = patterns({"output.*", "gate.*"});
  const auto model = toy();
  const auto before = model->named_parameters()["output.bias"].detach().clone();
  const auto done = load_pretrained(*model, with, other_classes);
  EXPECT_THAT(done.anew, ElementsAre("output.weight", "output.bias"));
  EXPECT_THAT(done.unused, ElementsAre("gate.weight"));
  EXPECT_TRUE(torch::equal(model->named_parameters()["output.bias"], before));
  EXPECT_TRUE(torch::equal(model->named_parameters()["hidden.bias"], saved().at("hidden.bias")));
}

TEST(PretrainedWeights, WithOneThatDoesNotFitChangeNothingAndNameAllAndTheLineToAdd) {
  auto tensors = saved();
  tensors["output.weight"] = torch::randn({5, 16});
  tensors["output.bias"] = torch::zeros({3}, torch::kLong);
  tensors["gate.weight"] = torch::randn({2});
  tensors.erase("hidden.bias");
  const auto text = refusal(tensors, config());
  EXPECT_THAT(text, HasSubstr("e.yaml:3:1: pretrained.file: w.safetensors does not fit the model:\n"));
  EXPECT_THAT(text, HasSubstr("\n  hidden.bias, [16] in the model, is missing in the file"));
  EXPECT_THAT(text, HasSubstr("\n  output.weight is [5, 16] in the file and [3, 16] in the model"));
  EXPECT_THAT(text, HasSubstr("\n  output.bias is int64 in the file and float32 in the model"));
  EXPECT_THAT(text, HasSubstr("\n  the model has no gate.weight, [2] in the file"));
  EXPECT_THAT(text,
              HasSubstr("\nIf these are to start from new values: pretrained.skip: [gate.*, hidden.bias, output.*]"));
  const auto model = toy();
  const auto before = model->named_parameters()["hidden.weight"].detach().clone();
  error_of([&] { load_pretrained(*model, config(), tensors); });
  EXPECT_TRUE(torch::equal(model->named_parameters()["hidden.weight"], before));
  auto with = config();
  with.skip = patterns({"gate.*", "hidden.bias", "output.*"});
  EXPECT_EQ(load_pretrained(*toy(), with, tensors).loaded, 1);
}

TEST(PretrainedWeights, OfAnotherNetworkAreDistinguishedFromThoseWithAPrefix) {
  TensorDict prefixed, many;
  for (const auto& [name, tensor] : saved()) prefixed["module." + name] = tensor;
  EXPECT_THAT(refusal(prefixed, config()),
              HasSubstr("begin with module., the model's do not: pretrained.rename: {\"^module\\\\.\": \"\"}"));
  for (int i = 0; i < 30; ++i) many["block" + std::to_string(i) + ".weight"] = torch::zeros({2});
  EXPECT_THAT(refusal(many, config()),
              HasSubstr("and 24 more\nNone of its tensors fits: it is of another network, or"));
}

TEST(PretrainedWeights, RefusePatternsThatMatchNothing) {
  auto with = config();
  with.skip = patterns({"outputs.*"});
  EXPECT_THAT(refusal(saved(), with),
              HasSubstr("e.yaml:3:7: pretrained.skip: no tensor of the model or of the file matches "
                        "\"outputs.*\"; did you mean output.*?"));
  with = config();
  with.rename = {{"^modules\\.", ""}};
  EXPECT_THAT(refusal(saved(), with),
              HasSubstr("pretrained.rename: \"^modules\\.\" matches none of the file's names: hidden.bias"));
  with.rename = {{"weight|bias", "x"}};
  EXPECT_THAT(refusal(saved(), with), HasSubstr("two tensors of the file would be called hidden.x"));
}

TEST(PretrainedWeights, OfSixteenBitsBecomeThirtyTwo) {
  auto tensors = saved();
  for (auto& [name, tensor] : tensors) tensor = tensor.to(torch::kBFloat16);
  const auto model = toy();
  const auto done = load_pretrained(*model, config(), tensors);
  EXPECT_THAT(done.text("a/w.safetensors"), HasSubstr("4 tensors loaded from w.safetensors (bfloat16 to float32)"));
  const auto weight = model->named_parameters()["hidden.weight"];
  EXPECT_EQ(weight.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(weight, tensors.at("hidden.weight").to(torch::kFloat)));
}

class TiedModel : public Model {
 public:
  TiedModel() {
    const auto weight = torch::zeros({4, 4});
    for (const auto* name : {"in", "out"})
      register_module(name, std::make_shared<torch::nn::Module>(name))->register_parameter("weight", weight);
  }
};

TEST(PretrainedWeights, ThatTheModelHasTwiceNeedOneNameInTheFile) {
  const TiedModel model;
  EXPECT_EQ(load_pretrained(model, config(), {{"out.weight", torch::ones({4, 4})}}).loaded, 1);
  EXPECT_TRUE(torch::equal(model.named_parameters()["in.weight"], torch::ones({4, 4})));
}

// Files

class WeightFile : public FolderTest {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    FolderTest::write(folder_ / name, text);
    return folder_ / name;
  }
  std::filesystem::path write(const std::string& name, const TensorDict& tensors) const {
    write_safetensors(folder_ / name, tensors);
    return folder_ / name;
  }
  static std::string refusal_of(const std::filesystem::path& path) {
    return error_of([&] { read_weights(path); });
  }
};

TEST_F(WeightFile, OfSeveralPartsIsReadByItsIndexOrTheFolderThatHoldsIt) {
  write("a.safetensors", TensorDict{{"x", torch::ones({2})}});
  write("b.safetensors", TensorDict{{"y", torch::zeros({3})}, {"z", torch::zeros({1})}});
  const auto index =
      write("model.safetensors.index.json",
            R"({"metadata": {}, "weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"}})");
  for (const auto& path : {index, folder_}) {
    const auto tensors = read_weights(path);
    EXPECT_EQ(tensors.size(), 3U);
    EXPECT_TRUE(torch::equal(tensors.at("x"), torch::ones({2})));
  }
  std::filesystem::remove(folder_ / "b.safetensors");
  EXPECT_THAT(refusal_of(index), HasSubstr("b.safetensors: no such file; "));
  EXPECT_THAT(refusal_of(index), HasSubstr("names it, for y and 1 more tensors"));
  write("b.safetensors", TensorDict{{"y", torch::zeros({3})}});
  EXPECT_THAT(refusal_of(index), HasSubstr("b.safetensors: it has no z, which "));
  write("b.safetensors", TensorDict{{"y", torch::zeros({3})}, {"z", torch::zeros({1})}, {"x", torch::zeros({1})}});
  EXPECT_THAT(refusal_of(index), HasSubstr("it has x, and so has another file"));
}

TEST_F(WeightFile, WithAFlawIsRefusedByName) {
  const auto index = write("m.safetensors.index.json", "");
  const std::vector<std::pair<std::string, const char*>> flaws{
      {"{\"weight_map\": {", "m.safetensors.index.json: not a valid index: "},
      {"[]", "it has no weight_map of tensors and files"},
      {R"({"weight_map": {"x": "../a.safetensors"}})", "expected the name of a file beside it"},
      {R"({"weight_map": {"x": 3}})", "the place of x is 3, expected the name"},
      {R"({"weight_map": {"x": [[1]]}})", "the place of x is a list, expected the name"},
      {R"({"weight_map": {"x": )" + std::string(200'000, '['), "nests deeper than"},
      {R"({"weight_map": {")" + std::string(400'000, 'x') + R"(": "a"}})", "a tensor's name has 400000 bytes"}};
  for (const auto& [text, words] : flaws) EXPECT_THAT(refusal_of(write(index.filename(), text)), HasSubstr(words));
  EXPECT_THAT(refusal_of(folder_ / "none"), HasSubstr("none: no such file or folder"));
  EXPECT_THAT(refusal_of(write("net.pth", "PK")),
              HasSubstr("Convert it: ddprun-convert-weights " + (folder_ / "net.pth").string() + " " +
                        (folder_ / "net.safetensors").string()));
  EXPECT_THAT(refusal_of(write("net.ckpt", "PK\3\4...")), HasSubstr("torch.save() wrote it"));
  auto file = write("w.safetensors", saved());
  std::filesystem::resize_file(file, 200);
  EXPECT_THAT(refusal_of(file), HasSubstr("w.safetensors: not a valid safetensors file"));
}

}  // namespace
}  // namespace ddprun

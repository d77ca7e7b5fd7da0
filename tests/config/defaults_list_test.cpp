// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"

#include <unistd.h>

#include <array>

namespace ddprun {
namespace {

using testing::HasSubstr;
using DefaultsList = ConfigFixture;

TEST_F(DefaultsList, PlacesAGroupsFileBelowItsKey) {
  write("model/convnet.yaml", "plugin: convnet\ndropout: 0.5\n");
  EXPECT_EQ(composed_yaml("defaults: [model/convnet]\nseed: 1\n"),
            "model:\n  plugin: convnet\n  dropout: 0.5\nseed: 1\n");
}

TEST_F(DefaultsList, KeepsThePlaceOfEveryValue) {
  write("model/convnet.yaml", "plugin: convnet\ndropout: 0.5\n");
  const auto config = composed("defaults: [model/convnet]\nmodel: {dropout: 0.2}\n");
  EXPECT_EQ(config.find("model")->find("plugin")->origin().text(), "model/convnet.yaml:1:9");
  EXPECT_EQ(config.find("model")->find("dropout")->origin().text(), "e.yaml:2:18");
}

TEST_F(DefaultsList, LetsLaterEntriesWinAndOwnKeysOverAll) {
  write("optimizer/a.yaml", "plugin: sgd\nlr: 1\nmomentum: 1\nnesterov: false\n");
  write("optimizer/b.yaml", "plugin: sgd\nlr: 2\nmomentum: 2\n");
  EXPECT_EQ(composed_yaml("optimizer: {lr: 3}\ndefaults: [optimizer/a, optimizer/b]\n"),
            "optimizer:\n  plugin: sgd\n  lr: 3\n  momentum: 2\n  nesterov: false\n");
}

TEST_F(DefaultsList, DropsTheOptionsOfAPluginThatIsReplaced) {
  write("model/convnet.yaml", "plugin: convnet\ndropout: 0.5\n");
  EXPECT_EQ(composed_yaml("defaults: [model/convnet]\nmodel: {plugin: mlp}\n"), "model:\n  plugin: mlp\n");
  EXPECT_EQ(composed_yaml("defaults: [model/convnet]\nmodel: mlp\n"), "model:\n  plugin: mlp\n");
  EXPECT_EQ(composed_yaml("defaults: [model/convnet]\nmodel: convnet\n"),
            "model:\n  plugin: convnet\n  dropout: 0.5\n");
  write("objective/smooth.yaml", "name: cross_entropy\nsmoothing: 0.1\n");
  EXPECT_EQ(composed_yaml("defaults: [objective/smooth]\nobjective: mse\n"), "objective:\n  name: mse\n");
}

TEST_F(DefaultsList, ReplacesListsWhole) {
  write("experiments/base.yaml", "loggers: [a, b]\nseed: 1\n");
  EXPECT_EQ(composed_yaml("defaults: [experiments/base]\nloggers: [c]\n"), "loggers:\n  - plugin: c\nseed: 1\n");
}

TEST_F(DefaultsList, MergesAnExperimentAtTheRoot) {
  write("experiments/base.yaml", "seed: 1\ntrainer: {max_epochs: 3, max_steps: 4}\n");
  EXPECT_EQ(composed_yaml("defaults: [experiments/base]\ntrainer: {max_epochs: 9}\n"),
            "seed: 1\ntrainer:\n  max_epochs: 9\n  max_steps: 4\n");
}

TEST_F(DefaultsList, ComposesDefaultsOfDefaults) {
  write("model/base.yaml", "plugin: convnet\nwidth: 1\ndropout: 1\n");
  write("model/wide.yaml", "defaults: [base, optimizer/sgd]\nwidth: 2\n");
  write("optimizer/sgd.yaml", "plugin: sgd\n");
  EXPECT_EQ(composed_yaml("defaults: [model/wide]\n"),
            "model:\n  plugin: convnet\n  width: 2\n  dropout: 1\noptimizer:\n  plugin: sgd\n");
}

TEST_F(DefaultsList, FindsNeighboursByTheirNameAlone) {
  write("experiments/base.yaml", "seed: 1\n");
  EXPECT_EQ(composed_yaml("defaults: [base]\n"), "seed: 1\n");
}

TEST_F(DefaultsList, ReadsHydrasFormOfAnEntry) {
  write("model/convnet.yaml", "plugin: convnet\n");
  EXPECT_EQ(composed_yaml("defaults:\n  - model: convnet\n"), "model:\n  plugin: convnet\n");
}

TEST_F(DefaultsList, TakesAListForLoggers) {
  write("logger/files.yaml", "- csv\n- jsonl\n");
  write("logger/tb.yaml", "plugin: tensorboard\n");
  EXPECT_EQ(composed_yaml("defaults: [logger/files]\n"), "loggers:\n  - plugin: csv\n  - plugin: jsonl\n");
  EXPECT_EQ(composed_yaml("defaults: [logger/tb]\n"), "loggers:\n  - plugin: tensorboard\n");
  EXPECT_EQ(composed("seed: 1\n", {"+loggers=tb"}).find("loggers")->items()[3].find("plugin")->text(), "tensorboard");
  EXPECT_EQ(composed_yaml("seed: 1\n", {"loggers=files"}), "seed: 1\nloggers:\n  - plugin: csv\n  - plugin: jsonl\n");
}

TEST_F(DefaultsList, NamesTheNearestFileAndAllPlacesTried) {
  write("model/convnet.yaml", "plugin: convnet\n");
  std::filesystem::create_directories("more");
  write("e.yaml", "defaults: [model/convnt, optimizr/sgd]\n");
  EXPECT_EQ(error_of([] { compose({.experiment = "e.yaml", .search_path = {"more"}}); }),
            "e.yaml:1:12: defaults: model/convnt: no such file; did you mean model/convnet? tried: model/convnt.yaml, "
            "more/model/convnt.yaml\n"
            "e.yaml:1:26: defaults: optimizr/sgd: no such file; tried: optimizr/sgd.yaml, more/optimizr/sgd.yaml");
}

TEST_F(DefaultsList, SearchesInOrderAndTheExperimentsFolderFirst) {
  write("one/model/m.yaml", "plugin: one\n");
  write("two/model/m.yaml", "plugin: two\n");
  write("mine/experiments/e.yaml", "defaults: [model/m]\n");
  const auto plugin = [](const ComposeInput& input) { return compose(input).find("model")->find("plugin")->text(); };
  EXPECT_EQ(plugin({.experiment = "mine/experiments/e.yaml", .search_path = {"one", "two"}}), "one");
  write("mine/model/m.yaml", "plugin: mine\n");
  EXPECT_EQ(plugin({.experiment = "mine/experiments/e.yaml", .search_path = {"one", "two"}}), "mine");
  EXPECT_EQ(plugin({.experiment = folder_ / "mine/experiments/e.yaml", .search_path = {"one", "two"}}), "mine");
}

TEST_F(DefaultsList, RefusesFilesThatMultiply) {
  for (int i = 0; i < 20; ++i) {
    const auto next = std::string("experiments/x") + std::to_string(i + 1);
    write(std::string("experiments/x") + std::to_string(i) + ".yaml", "defaults: [" + next + ", " + next + "]\n");
  }
  write("experiments/x20.yaml", "seed: 1\n");
  EXPECT_THAT(compose_error("defaults: [experiments/x0]\n"), HasSubstr("defaults: more than 256 files"));
}

TEST_F(DefaultsList, TakesTheSameFileTwiceWithoutACycle) {
  write("model/m.yaml", "plugin: m\n");
  write("experiments/a.yaml", "defaults: [model/m]\n");
  write("experiments/b.yaml", "defaults: [model/m]\n");
  EXPECT_EQ(composed_yaml("defaults: [experiments/a, experiments/b]\n"), "model:\n  plugin: m\n");
}

TEST_F(DefaultsList, AnExperimentMayComeThroughAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string text = kMinimal + "seed: 7\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  EXPECT_EQ(load_experiment({.experiment = "/dev/fd/" + std::to_string(ends[0])}).seed, 7);  // as <(program) names it
  ::close(ends[0]);
}

TEST_F(DefaultsList, RefusesWhatItCannotPlaceAndReportsTheMistakesOfAllFilesTogether) {
  write("experiments/a.yaml", "defaults: [experiments/b]\n");
  write("experiments/b.yaml", "defaults: [experiments/a]\n");
  write("model/m.yaml", "plugin: a\nplugin: b\n");
  write("optimizer/o.yaml", "- x\n");
  write("dataset/d.yaml", "");
  expect_compose_refuses({
      {"defaults: [_self_]\n",
       "e.yaml:1:12: defaults: _self_ is not needed: a file's own keys always win over its defaults"},
      {"defaults: [experiments/a]\n",
       "experiments/b.yaml:1:12: defaults: a cycle: experiments/a.yaml is among the files that need it"},
      {"defaults: model/m\n",
       "e.yaml:1:11: defaults: expected a list such as [model/convnet, optimizer/sgd], found \"model/m\""},
      {"defaults: [../secret, /etc/x, [a]]\n",
       "e.yaml:1:12: defaults: expected group/name such as model/convnet, found \"../secret\"\n"
       "e.yaml:1:23: defaults: expected group/name such as model/convnet, found \"/etc/x\"\n"
       "e.yaml:1:31: defaults: expected group/name such as model/convnet, found a list"},
      {"defaults: [model/m, optimizer/o, dataset/d]\nseed: 1\nseed: 2\n",
       "e.yaml:3:1: seed: written twice; first at e.yaml:2:1\n"
       "model/m.yaml:2:1: plugin: written twice; first at model/m.yaml:1:1\n"
       "optimizer/o.yaml:1:1: expected a map of keys, found a list\n"
       "dataset/d.yaml: the file is empty"},
  });
  write("modle/m.yaml", "plugin: a\n");
  expect_load_refuses({{"defaults: [modle/m]\n", HasSubstr("e.yaml:4:12: modle: unknown key; did you mean model?")}});
}

}  // namespace
}  // namespace ddprun

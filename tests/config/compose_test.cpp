// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"

namespace ddprun {
namespace {

using Compose = ConfigFixture;

std::string name_of(const ComposeInput& input) { return compose(input).find("name")->text(); }

TEST_F(Compose, TakesTheFileAsGivenBeforeTheSearchPath) {
  write("experiments/a.yaml", "name: here\n");
  write("installed/experiments/a.yaml", "name: installed\n");
  EXPECT_EQ(name_of({.experiment = "experiments/a.yaml", .search_path = {"installed"}}), "here");
}

TEST_F(Compose, FindsExperimentsBelowTheSearchPath) {
  write("installed/experiments/a.yaml", "name: installed\n");
  for (const auto* given : {"experiments/a.yaml", "experiments/a", "a.yaml", "a"}) {
    EXPECT_EQ(name_of({.experiment = given, .search_path = {"elsewhere", "installed"}}), "installed") << given;
  }
}

TEST_F(Compose, NamesTheNearestExperimentAndAllPlacesTried) {
  write("installed/experiments/mnist.yaml", "name: a\n");
  EXPECT_EQ(
      error_of([] { compose({.experiment = "experiments/mnits.yaml", .search_path = {"installed"}}); }),
      "experiments/mnits.yaml: no such experiment; did you mean experiments/mnist.yaml? tried: experiments/mnits.yaml, "
      "installed/experiments/mnits.yaml");
  EXPECT_EQ(error_of([] { compose({.experiment = "zzzzzz", .search_path = {"installed"}}); }),
            "zzzzzz: no such experiment; there are: mnist; tried: zzzzzz, zzzzzz.yaml, installed/zzzzzz, "
            "installed/zzzzzz.yaml, installed/experiments/zzzzzz, installed/experiments/zzzzzz.yaml");
}

TEST_F(Compose, SaysWhichCommandTakesWhatIsNoExperiment) {
  write("wine.csv", "a,b\n1,2\n");
  write("photos/cat/1.jpg", "");
  write("outputs/wine/latest/config.yaml", "name: wine\n");
  const auto refused = [](const char* given) { return error_of([&] { compose({.experiment = given}); }); };
  EXPECT_EQ(refused("wine.csv"),
            "wine.csv: a table, expected an experiment, a YAML file; `ddprun init wine.csv` writes one for it");
  EXPECT_THAT(refused("photos/cat/1.jpg"), ::testing::HasSubstr(": a picture, expected an experiment"));
  EXPECT_THAT(refused("photos"), ::testing::HasSubstr("`ddprun init photos` writes one"));
  EXPECT_THAT(refused("outputs/wine"), ::testing::HasSubstr("`ddprun list outputs/wine` lists them"));
  EXPECT_EQ(
      refused("outputs/wine/lates"),
      "outputs/wine/lates: no such experiment; did you mean outputs/wine/latest: the folder of a run, expected an "
      "experiment, a YAML file; `ddprun resume outputs/wine/latest` continues it");
  write("photos.yaml", "name: photos\n");
  EXPECT_EQ(name_of({.experiment = "photos"}), "photos");
}

TEST_F(Compose, NamesTheExperimentAfterItsFile) {
  write("a/b c.yaml", "seed: 1\n");
  const auto config = compose({.experiment = "a/b c.yaml"});
  EXPECT_EQ(config.find("name")->text(), "b c");
  EXPECT_EQ(config.find("name")->origin().text(), "default");
}

TEST_F(Compose, FillsInTheLoggers) {
  EXPECT_EQ(composed("seed: 1\n").find("loggers")->items().size(), 3U);
  EXPECT_TRUE(composed("loggers: []\n").find("loggers")->items().empty());
}

TEST_F(Compose, ExpandsShortForms) {
  EXPECT_EQ(
      composed_yaml("model: mlp\ndataset: digits\noptimizer: sgd\nobjective: mse\nloggers: csv\nplugin_path: /x\n"),
      "model:\n  plugin: mlp\ndataset:\n  plugin: digits\noptimizer:\n  plugin: sgd\nobjective:\n  name: mse\n"
      "loggers:\n  - plugin: csv\nplugin_path:\n  - /x\n");
}

TEST_F(Compose, MakesPathsAbsoluteFromTheFileThatHasThem) {
  write("sub/e.yaml",
        "model: ../lib/m.so\noptimizer: sgd\nplugin_path: [plugins, /abs]\nloggers: [./l.so]\n"
        "pretrained: {file: w.safetensors}\ncheckpoint: {resume: auto}\n");
  const auto config = compose({.experiment = "sub/e.yaml", .overrides = {"dataset=./d.so", "+launch.token_file=t"}});
  EXPECT_EQ(config.find("pretrained")->find("file")->text(), folder_ / "sub/w.safetensors");
  EXPECT_EQ(config.find("checkpoint")->find("resume")->text(), "auto");
  EXPECT_EQ(config.find("launch")->find("token_file")->text(), folder_ / "t");
  EXPECT_EQ(config.find("model")->find("plugin")->text(), folder_ / "lib/m.so");
  EXPECT_EQ(config.find("dataset")->find("plugin")->text(), folder_ / "d.so");  // from the current folder
  EXPECT_EQ(config.find("optimizer")->find("plugin")->text(), "sgd");
  EXPECT_EQ(config.find("plugin_path")->items()[0].text(), folder_ / "sub/plugins");
  EXPECT_EQ(config.find("plugin_path")->items()[1].text(), "/abs");
  EXPECT_EQ(config.find("loggers")->items()[0].find("plugin")->text(), folder_ / "sub/l.so");
}

TEST_F(Compose, GivesTheSameExperimentFromItsFrozenForm) {
  write("model/m.yaml", "plugin: m\nname: '7'\nx: ${seed}\n");
  const auto config = composed("seed: 3\ndefaults: [model/m]\nname: \\${a\n", {"trainer.max_epochs=2"});
  write("run/config.yaml", to_yaml(config, true));
  EXPECT_EQ(to_yaml(compose({.experiment = "run/config.yaml", .frozen = true}), false), to_yaml(config, false));
  EXPECT_EQ(to_yaml(load_yaml("run/config.yaml"), false), to_yaml(config, false));
}

TEST_F(Compose, ShowsWhereEveryValueCameFrom) {
  write("model/m.yaml", "plugin: m\n");
  const auto config = composed("defaults: [model/m]\nseed: 3\nloggers: []\n", {"model.hidden=2"});
  EXPECT_EQ(to_yaml(config, true),
            "name: \"e\"    # default\n"
            "model:       # e.yaml:1:12\n"
            "  plugin: m  # model/m.yaml:1:9\n"
            "  hidden: 2  # command line: model.hidden=2\n"
            "seed: 3      # e.yaml:2:7\n"
            "loggers: []  # e.yaml:3:10\n");
}

}  // namespace
}  // namespace ddprun

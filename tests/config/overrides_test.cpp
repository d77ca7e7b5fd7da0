// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"
#include "config/key_path.h"

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Overrides = ConfigFixture;

TEST_F(Overrides, ChangeAWrittenKey) {
  EXPECT_EQ(composed_yaml("seed: 1\ntrainer: {max_epochs: 5, max_steps: 9}\n", {"trainer.max_epochs=3"}),
            "seed: 1\ntrainer:\n  max_epochs: 3\n  max_steps: 9\n");
}

TEST_F(Overrides, ChangeAKnownKeyThatIsNotWritten) {
  EXPECT_EQ(composed_yaml("seed: 1\n", {"trainer.max_epochs=3", "early_stopping.patience=2"}),
            "seed: 1\ntrainer:\n  max_epochs: 3\nearly_stopping:\n  patience: 2\n");
}

TEST_F(Overrides, CarryTheirTextAsOrigin) {
  const auto config = composed("seed: 1\n", {"trainer.max_epochs=3"});
  EXPECT_EQ(config.find("trainer")->find("max_epochs")->origin().text(), "command line: trainer.max_epochs=3");
}

TEST_F(Overrides, LeaveOptionsOfPluginsToThePlugin) {
  EXPECT_EQ(composed_yaml("model: mlp\nobjective: mse\n", {"model.dropout=0.2", "objective.a.b=1"}),
            "model:\n  plugin: mlp\n  dropout: 0.2\nobjective:\n  name: mse\n  a:\n    b: 1\n");
}

TEST_F(Overrides, ReachIntoLists) {
  EXPECT_EQ(composed_yaml("loggers: [console, csv]\n", {"loggers[1].every=5", "loggers.0=jsonl"}),
            "loggers:\n  - plugin: jsonl\n  - plugin: csv\n    every: 5\n");
}

TEST_F(Overrides, AppendToLists) {
  EXPECT_EQ(composed_yaml("loggers: [console]\n", {"+loggers=csv", "+loggers=[jsonl, {plugin: a, b: 1}]"}),
            "loggers:\n  - plugin: console\n  - plugin: csv\n  - plugin: jsonl\n  - plugin: a\n    b: 1\n");
  const auto config = composed("seed: 1\n", {"+loggers=tensorboard"});
  EXPECT_EQ(config.find("loggers")->items().size(), 4U);  // the default ones stay
}

TEST_F(Overrides, AddAKeyOnlyWhereThereIsNone) {
  EXPECT_EQ(composed_yaml("model: mlp\n", {"+model.hidden=3"}), "model:\n  plugin: mlp\n  hidden: 3\n");
  EXPECT_EQ(composed_yaml("model: {plugin: mlp, hidden: 2}\n", {"++model.hidden=3", "++model.x=1"}),
            "model:\n  plugin: mlp\n  hidden: 3\n  x: 1\n");
}

TEST_F(Overrides, Remove) {
  EXPECT_EQ(composed_yaml("seed: 1\nmodel: {plugin: mlp, hidden: 2}\nloggers: [a, b]\nearly_stopping: {patience: 1}\n",
                          {"~model.hidden", "~loggers.0", "~early_stopping"}),
            "seed: 1\nmodel:\n  plugin: mlp\nloggers:\n  - plugin: b\n");
}

TEST_F(Overrides, TakeValuesAsYamlFlow) {
  EXPECT_EQ(composed_yaml("model: mlp\n", {"model.a=[1, 'x']", "model.b={c: 2}", "model.d='7'", "model.e=null",
                                           "model.f=", "model.g=a: b # c", "model.h=\"x\\ny\""}),
            "model:\n  plugin: mlp\n  a:\n    - 1\n    - \"x\"\n  b:\n    c: 2\n  d: \"7\"\n  e: null\n  f: \"\"\n"
            "  g: \"a: b # c\"\n  h: \"x\\ny\"\n");
}

TEST_F(Overrides, AreRefusedWithTheNearestName) {
  write("trainer/short.yaml", "max_epochs: 1\n");
  struct Mistake {
    std::string override, says, text = "seed: 1\n";
  };
  const std::string plugin = "model: {plugin: mlp, hidden: 2}\n", loggers = "loggers: [console]\n";
  for (const auto& [override, says, text] : std::vector<Mistake>{
           {"trainer.max_epoch=3", "trainer.max_epoch: unknown key; did you mean max_epochs?"},
           {"traner.max_epochs=3", "traner.max_epochs: unknown key; did you mean trainer? "},
           {"resources.cpus=3", "resources.cpus: unknown key; did you mean cpus_per_node or cpus_per_worker?"},
           {"trainer.max_epochs.x=3", "trainer.max_epochs.x: unknown key; trainer.max_epochs holds one value"},
           {"seed.x=3", "seed.x: unknown key; seed holds one value"},
           {"lr=0.2", "lr: unknown key; did you mean optimizer.lr?", "optimizer: {plugin: sgd, lr: 0.1}\n"},
           {"workers=2", "workers: unknown key; did you mean launch.workers?"},
           {"loggers[1]=csv", "loggers.1: loggers has 1 entries, counted from 0; +loggers=... appends one", loggers},
           {"loggers[1].x=csv", "loggers.1.x: loggers.1 does not exist", loggers},
           {"+model.hidden=3", "model.hidden: is there already; write it without + to change it, or with ++", plugin},
           {"model.hidden.x=1", "model.hidden.x: model.hidden is not a map", plugin},
           {"trainer=shrt",
            "trainer: trainer/shrt: no such file; did you mean trainer/short? tried: trainer/shrt.yaml"},
       })
    EXPECT_THAT(compose_error(text, {override}), StartsWith("command line: " + override + ": " + says));
  EXPECT_THAT(load_error(kMinimal, {"defaults=[model/x]"}), HasSubstr("defaults: works only in files"));
}

TEST_F(Overrides, ReportEveryMistakeAtOnce) {
  EXPECT_EQ(compose_error("seed: 1\n", {"~trainer.max_epochs", "~model.x", "~seed=1"}),
            "command line: ~seed=1: ~ removes a key and takes no value: ~seed\n"
            "command line: ~trainer.max_epochs: trainer.max_epochs: is not written, so there is nothing to remove\n"
            "command line: ~model.x: model.x: no such key to remove");
  EXPECT_EQ(compose_error("seed: 1\n", {"seed", "a..b=1", "x[y]=1", "model.a=[1", "model.b='x' y"}),
            "command line: seed: expected key=value\n"
            "command line: a..b=1: expected a key such as trainer.max_epochs or loggers[0].plugin\n"
            "command line: x[y]=1: expected a key such as trainer.max_epochs or loggers[0].plugin\n"
            "command line: model.a=[1: value:1:1: not valid YAML: end of sequence flow not found; the [ in line 1 is "
            "not closed, or a comma is missing in it\n"
            "command line: model.b='x' y: value:1:5: a second document begins here; one file holds one experiment");
}

TEST_F(Overrides, ChooseAPluginByNameWhereTheGroupHasNoFile) {
  EXPECT_EQ(composed_yaml("optimizer: {plugin: sgd, momentum: 0.9}\n", {"optimizer=adam"}),
            "optimizer:\n  plugin: adam\n");
  EXPECT_EQ(composed_yaml("objective: {name: a, x: 1}\n", {"objective=mse"}), "objective:\n  name: mse\n");
}

TEST_F(Overrides, ChooseAFileOfTheGroup) {
  write("optimizer/adam.yaml", "plugin: adam\nlr: 0.001\n");
  write("trainer/short.yaml", "max_epochs: 1\n");
  EXPECT_EQ(composed_yaml("optimizer: {plugin: adam, eps: 1}\ntrainer: {max_epochs: 9, max_steps: 7}\n",
                          {"optimizer=adam", "trainer=short"}),
            "trainer:\n  max_epochs: 1\n  max_steps: 7\noptimizer:\n  plugin: adam\n  lr: 0.001\n");
}

TEST_F(Overrides, ChooseBeforeTheyChange) {
  EXPECT_EQ(composed_yaml("model: {plugin: convnet, width: 3}\n", {"model.hidden=5", "model=mlp"}),
            "model:\n  plugin: mlp\n  hidden: 5\n");
  EXPECT_EQ(composed_yaml("model: {plugin: convnet, width: 3}\n", {"model.hidden=5", "model.plugin=mlp"}),
            "model:\n  plugin: mlp\n  hidden: 5\n");
}

TEST_F(Overrides, DropTheOptionsOfAnotherPlugin) {
  EXPECT_EQ(composed_yaml("model: {plugin: convnet, width: 3}\n", {"model={plugin: mlp, hidden: 2}"}),
            "model:\n  plugin: mlp\n  hidden: 2\n");
  EXPECT_EQ(composed_yaml("loggers: [{plugin: a, x: 1}]\n", {"loggers[0].plugin=b"}), "loggers:\n  - plugin: b\n");
  EXPECT_EQ(composed_yaml("objective: {name: a, x: 1}\n", {"objective.name=b"}), "objective:\n  name: b\n");
}

TEST_F(Overrides, MergeAMapThatNamesNoPlugin) {
  EXPECT_EQ(composed_yaml("optimizer: {plugin: sgd, lr: 1, momentum: 2}\n", {"optimizer={lr: 3}"}),
            "optimizer:\n  plugin: sgd\n  lr: 3\n  momentum: 2\n");
}

TEST_F(Overrides, SwitchASectionOffWithNull) {
  EXPECT_FALSE(loaded(kMinimal + "early_stopping: {patience: 1}\n", {"early_stopping=null"}).early_stopping);
}

TEST_F(Overrides, LaterOnesWin) { EXPECT_EQ(composed_yaml("seed: 1\n", {"seed=2", "seed=3"}), "seed: 3\n"); }

TEST(KeyMessage, BeginsWithAKeyOrWithNone) {
  const auto parts = [](const std::string& message) {
    const auto [key, text] = split_message(message);
    return key + "|" + text;
  };
  EXPECT_EQ(parts("launch.workers: 9 workers: too many"), "launch.workers|9 workers: too many");
  EXPECT_EQ(parts("seed: a"), "seed|a");
  for (const std::string other : {"e.yaml:3:5: seed: a", "no such file: /a", "File: a", "seed:a", "", ": a"})
    EXPECT_EQ(parts(other), "|" + other);
}

}  // namespace
}  // namespace ddprun

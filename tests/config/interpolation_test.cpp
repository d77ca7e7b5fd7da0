// SPDX-License-Identifier: MIT
#include "base/log.h"
#include "config/config_fixture.h"
#include "config/secrets.h"

#include <ctime>

namespace ddprun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

class Interpolation : public ConfigFixture {
 protected:
  void SetUp() override {
    ConfigFixture::SetUp();
    setenv("DDPRUN_TEST_SET", "42", 1);
    setenv("DDPRUN_TEST_EMPTY", "", 1);
    unsetenv("DDPRUN_TEST_UNSET");
  }
};

TEST_F(Interpolation, PutsValuesIntoTexts) {
  EXPECT_EQ(composed_yaml("seed: 7\nname: run-${seed}-${model.plugin}\nmodel: mlp\n"),
            "seed: 7\nname: run-7-mlp\nmodel:\n  plugin: mlp\n");
}

TEST_F(Interpolation, KeepsTheTypeOfAWholeValue) {
  EXPECT_EQ(composed_yaml(
                "seed: 7\nmodel: {plugin: mlp, a: '${seed}', b: '${model.l}', l: [1, 'x'], q: '7', r: '${model.q}'}\n"),
            "seed: 7\nmodel:\n  plugin: mlp\n  a: 7\n  b:\n    - 1\n    - \"x\"\n  l:\n    - 1\n    - \"x\"\n  q: "
            "\"7\"\n  r: \"7\"\n");
}

TEST_F(Interpolation, KnowsDefaultsThatAreNotWritten) {
  EXPECT_EQ(composed_yaml("seed: ${trainer.max_epochs}\n"), "seed: 10\n");
}

TEST_F(Interpolation, SeesOverridesAndTheFilledInName) {
  EXPECT_EQ(composed_yaml("seed: 1\nrun: {dir: 'out/${name}-${seed}'}\n", {"seed=5"}),
            "seed: 5\nrun:\n  dir: \"out/e-5\"\n");
  EXPECT_EQ(composed_yaml("seed: 1\n", {"run.dir=out/${seed}"}), "seed: 1\nrun:\n  dir: out/1\n");
}

TEST_F(Interpolation, FollowsReferencesThroughReferences) {
  EXPECT_EQ(composed_yaml("seed: '${model.a.x}'\nmodel: {plugin: mlp, a: '${model.b}', b: {x: '${model.c}'}, c: 3}\n"),
            "seed: 3\nmodel:\n  plugin: mlp\n  a:\n    x: 3\n  b:\n    x: 3\n  c: 3\n");
}

TEST_F(Interpolation, ReadsTheEnvironment) {
  EXPECT_EQ(composed_yaml("seed: ${env:DDPRUN_TEST_SET}\nname: x${env:DDPRUN_TEST_UNSET,a,b}\nrun: {dir: "
                          "'${env:DDPRUN_TEST_EMPTY}'}\n"),
            "seed: 42\nname: xa,b\nrun:\n  dir: \"\"\n");
}

TEST_F(Interpolation, SecretsStayTextsUntilAPluginGetsThem) {
  setenv("DDPRUN_TEST_SECRET", "geheim", 1);
  setenv("DDPRUN_TEST_UNSET_FILE", "secret.txt", 1);
  write("secret.txt", "im Beutel\r\n");
  const std::string text =
      "model:\n  plugin: mlp\n  url: https://u:${secret:DDPRUN_TEST_SECRET}@h\n  files:\n    - "
      "${secret:DDPRUN_TEST_UNSET}\n  literal: \\${secret:x}\n";
  EXPECT_EQ(composed_yaml(text + "  same: ${model.url}\n"),
            text + "  same: https://u:${secret:DDPRUN_TEST_SECRET}@h\n");
  const auto options = with_secrets(*composed(text).find("model"), "model");
  EXPECT_EQ(options.find("url")->text(), "https://u:geheim@h");
  EXPECT_EQ(options.find("files")->items()[0].text(), "im Beutel");
  EXPECT_EQ(options.find("literal")->text(), "${secret:x}");
  EXPECT_EQ(log::masked("cannot reach u:geheim"), "cannot reach u:${secret:DDPRUN_TEST_SECRET}");
  unsetenv("DDPRUN_TEST_UNSET_FILE");
  EXPECT_THAT(error_of([&] { with_secrets(*composed(text).find("model"), "model"); }),
              StartsWith("e.yaml:5:7: model.files[0]: the environment has no DDPRUN_TEST_UNSET; export it, or"));
}

TEST_F(Interpolation, RefusesSecretsWhereTheyWouldBeWrittenOut) {
  const auto looks = HasSubstr("looks like a secret, and its value would be written to config.yaml");
  setenv("DDPRUN_TEST_URL", "https://u:geheim@host/x", 1);
  expect_compose_refuses({
      {"name: a-${secret:DDPRUN_TEST_SET}\n",
       StartsWith("e.yaml:1:7: name: a secret can be in options of the model, the dataset, the optimizer, the "
                  "loggers and the callbacks alone")},
      {"model: ${secret:DDPRUN_TEST_SET}\n", StartsWith("e.yaml:1:8: model.plugin: a secret can")},
      {"model: {plugin: mlp, a: '${secret:a b}'}\n", HasSubstr("expected the name of an environment")},
      {"model: {plugin: mlp, a: '${env:DDPRUN_TEST_TOKEN,x}'}\n", looks},
      {"model: {plugin: mlp, api_key: 'x${env:DDPRUN_TEST_SET}'}\n", looks},
      {"name: ${env:DDPRUN_TEST_URL}\n", AllOf(HasSubstr("a URL with a password in it"), Not(HasSubstr("geheim")))},
  });
  EXPECT_THAT(composed_yaml("model: {plugin: mlp, url: 'https://u:${secret:P}@${env:DDPRUN_TEST_SET}'}\n"),
              HasSubstr("https://u:${secret:P}@42"));
  EXPECT_EQ(composed_yaml("name: ${env:DDPRUN_TEST_TOKENIZER,x}\nlaunch: {token_file: '/${env:DDPRUN_TEST_SET}'}\n"),
            "name: x\nlaunch:\n  token_file: \"/42\"\n");
}

TEST_F(Interpolation, FormatsTheTime) {
  const auto config = composed("name: a-${now:%Y-%m-%d_%H-%M-%S}\n");
  EXPECT_THAT(config.find("name")->text(), MatchesRegex("a-20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]_[0-9-]+"));
}

TEST_F(Interpolation, LeavesEscapedReferences) {
  const auto config = composed("name: \\${seed}-\\${x\nseed: 1\nmodel: {plugin: '${name}', b: '${model.plugin}'}\n");
  EXPECT_EQ(config.find("name")->text(), "${seed}-${x");
  EXPECT_EQ(config.find("model")->find("b")->text(), "${seed}-${x");
}

TEST_F(Interpolation, RefusesWhatReferencesCannotMean) {
  expect_compose_refuses({
      {"seed: 1\nname: ${env:DDPRUN_TEST_UNSET}\n",
       "e.yaml:2:7: name: the environment has no DDPRUN_TEST_UNSET; give a default with "
       "${env:DDPRUN_TEST_UNSET,default}"},
      {"name: ${now:}\n", "e.yaml:1:7: name: expected a format of strftime such as ${now:%Y-%m-%d}"},
      {"seed: 1\nname: ${sed}\nrun: {dir: '${trainer.max_epoch}'}\nmodel: {a: '${zzzzzz}'}\n",
       "e.yaml:2:7: name: ${sed}: no such key; did you mean ${seed}?\n"
       "e.yaml:3:12: run.dir: ${trainer.max_epoch}: no such key; did you mean ${trainer.max_epochs}?\n"
       "e.yaml:4:12: model.a: ${zzzzzz}: no such key"},
      {"name: ${foo:bar}\n", "e.yaml:1:7: name: ${foo:bar}: unknown function foo; known: env, now, secret"},
      {"name: a${seed\n", "e.yaml:1:7: name: ${seed: the } is missing"},
      {"name: ${env:${seed}}\n", "e.yaml:1:7: name: references cannot be nested: ${env:${seed}}"},
      {"name: ${}\n", "e.yaml:1:7: name: ${}: expected a key such as ${trainer.max_epochs}"},
      {"name: a${model}\nmodel: {plugin: mlp}\n",
       "e.yaml:1:7: name: ${model} is a map, which cannot be a part of a text"},
      {"name: ${run.dir}\nrun: {dir: '${name}'}\n",
       "e.yaml:2:12: run.dir: a cycle of references: ${run.dir} -> ${name}"},
      {"model: {plugin: mlp, a: '${model}'}\n", "e.yaml:1:25: model.a: a cycle of references: ${model}"},
      {"name: x${name}\n", "e.yaml:1:7: name: a cycle of references: ${name}"},
  });
}

TEST_F(Interpolation, EndsWhatGrowsWithoutBound) {
  std::string text = "model:\n  plugin: mlp\n  a0: xxxxxxxxxxxxxxxxxxxxxxxxx\n";
  for (int i = 1; i < 40; ++i) {
    const auto below = std::string("${model.a") + std::to_string(i - 1) + "}";
    text += std::string("  a") + std::to_string(i) + ": " + below + below + "\n";
  }
  EXPECT_THAT(compose_error(text), HasSubstr("the references of this file expand to more than 1 MB"));
}

TEST_F(Interpolation, EndsLongChains) {
  std::string text = "model:\n  plugin: mlp\n";
  for (int i = 0; i < 20'000; ++i)
    text += std::string("  a") + std::to_string(i) + ": ${model.a" + std::to_string(i + 1) + "}\n";
  EXPECT_THAT(compose_error(text + "  a20000: 1\n"), HasSubstr("more than 64 references in a row"));
}

TEST_F(Interpolation, TakesNoLongerForManyMistakes) {
  std::string text = "model:\n  plugin: mlp\n";
  for (int i = 0; i < 5'000; ++i) text += std::string("  a") + std::to_string(i) + ": ${nothing.of.that.name}\n";
  EXPECT_THAT(compose_error(text), HasSubstr("... and 4900 more"));
}

TEST_F(Interpolation, LeavesAFrozenConfigAlone) {
  write("config.yaml", "name: '${x}'\n");
  EXPECT_EQ(compose({.experiment = "config.yaml", .frozen = true}).find("name")->text(), "${x}");
}

}  // namespace
}  // namespace ddprun

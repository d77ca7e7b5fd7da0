// SPDX-License-Identifier: MIT
#include "config/yaml_reader.h"

#include "config/config_fixture.h"
#include "config/key_path.h"

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class YamlReader : public ConfigFixture {
 protected:
  Value load(const std::string& text) const {
    write("a.yaml", text);
    return load_yaml("a.yaml");
  }
  std::string error(const std::string& text) const {
    return error_of([&] { load(text); });
  }
  static std::string place(const Value& root, const std::string& path) {
    return find_at(root, *parse_key_path(path))->origin().text();
  }
};

TEST_F(YamlReader, GivesEveryValueAndKeyThePlaceItWasWrittenAt) {
  const auto root = load("model:\n  plugin: mlp\n  sizes: [1, 22]\nseed: 7\n");
  EXPECT_EQ(place(root, "seed"), "a.yaml:4:7");
  EXPECT_EQ(place(root, "model.plugin"), "a.yaml:2:11");
  EXPECT_EQ(place(root, "model.sizes"), "a.yaml:3:10");
  EXPECT_EQ(place(root, "model.sizes[1]"), "a.yaml:3:14");
  EXPECT_EQ(root.entries()[1].key_origin.text(), "a.yaml:4:1");
}

TEST_F(YamlReader, SaysQuotedTextsFromPlainOnes) {
  const auto root = load("a: 7\nb: '7'\nc: \"7\"\nd: |\n  7\ne: !!str 7\n");
  EXPECT_FALSE(root.find("a")->quoted());
  for (const auto* key : {"b", "c", "d", "e"}) EXPECT_TRUE(root.find(key)->quoted()) << key;
}

TEST_F(YamlReader, ReadsNullsInAllTheirForms) {
  const auto root = load("a:\nb: null\nc: ~\nd: ''\n");
  for (const auto* key : {"a", "b", "c"}) EXPECT_TRUE(root.find(key)->is_null()) << key;
  EXPECT_EQ(place(root, "a"), "a.yaml:1:1");  // its key's place, not that of what comes next
  EXPECT_TRUE(root.find("d")->is_scalar());
}

TEST_F(YamlReader, KeepsTheOrderOfKeys) {
  const auto root = load("z: 1\na: 2\nm: 3\n");
  EXPECT_EQ(root.entries()[0].key + root.entries()[1].key + root.entries()[2].key, "zam");
}

TEST_F(YamlReader, ExpandsAliases) {
  const auto root = load("a: &x {k: 1}\nb: *x\n");
  EXPECT_EQ(root.find("b")->find("k")->text(), "1");
  EXPECT_EQ(place(root, "b.k"), "a.yaml:1:11");
}

TEST_F(YamlReader, RefusesWhatIsNoExperimentWithItsPlace) {
  const std::vector<Refusal> refusals{
      {"seed: 1\nmodel: {plugin: a, plugin: b}\nseed: 2\n",
       "a.yaml:2:20: model.plugin: written twice; first at a.yaml:2:9\n"
       "a.yaml:3:1: seed: written twice; first at a.yaml:1:1"},
      {"name: 'mnist\nseed: 1\n", HasSubstr("a quote is opened and never closed")},
      {"name: \"mnist\nseed: 1\n", HasSubstr("a quote is opened and never closed")},
      {"seed: 1\nname\n", "a.yaml:2:1: not valid YAML: end of map not found"},
      {"a: &x {b: *x}\n", "a.yaml:1:11: a cycle: this alias stands for a value that contains it"},
      {"a: *x\n", "a.yaml:1:4: not valid YAML: the referenced anchor is not defined"},
      {"a: " + std::string(63, '[') + std::string(63, ']') + "\n", ""},
      {"a: " + std::string(64, '[') + std::string(64, ']') + "\n", "a.yaml:1:67: nested more than 64 levels deep"},
      {"a: " + std::string(200'000, '['), HasSubstr("nested more than 64 levels deep")},
      {"a: " + std::string(2 << 20, 'x'), "a.yaml: larger than 1 MB; no experiment is"},
      {"- a\n- b\n", "a.yaml:1:1: expected a map of keys, found a list"},
      {"just text\n", "a.yaml:1:1: expected a map of keys, found \"just text\""},
      {"", "a.yaml: the file is empty"},
      {"# only a comment\n", "a.yaml: the file is empty"},
      {"? [1, 2]\n: x\n~: y\n",
       "a.yaml:1:3: a key must be a name, found a list\na.yaml:3:1: a key must be a name, found null"},
      {"'': x\n", "a.yaml:1:1: a key has 1 to 256 bytes, this one has 0"},
      {"a: 1\n---\nb: 2\n", "a.yaml:2:1: a second document begins here; one file holds one experiment"},
      {"a: &x {k: 1}\nb:\n  <<: *x\n",
       "a.yaml:3:3: b.<<: merge keys are unsupported; compose files with defaults: instead"},
      {"a: !!python/object 1\n", "a.yaml:1:4: a: the tag tag:yaml.org,2002:python/object is not supported"},
      {"a: 1\n\tb: 2\n", "a.yaml:2:1: not valid YAML: illegal tab when looking for indentation"},
      {"a: 1\nb: [1, 2\n", StartsWith("a.yaml:")},
      {"a: 1\nb: {c: 'it {', d: [1]\n# }\ne: 2\n", HasSubstr("the { in line 2 is not closed")},
      {"a:\n\tb: 2\n", HasSubstr("a tab")},
      {"run: {dir: ${env:HOME}/x}\n", HasSubstr("put ${...} into 'quotes'")},
      {"a: 1\nb: \x04 2\n", "a.yaml:2:4: not a text file: byte 4 is a control character"},
      {"a: \xC3\x28\n", "a.yaml:1:4: not a text file: byte 195 is not UTF-8"},
      {std::string("a: 1\0b", 6), "a.yaml:1:5: not a text file: byte 0 is a control character"},
  };
  for (const auto& [text, message] : refusals) EXPECT_THAT(error(text), message) << text.substr(0, 40);
}

TEST_F(YamlReader, RefusesAnAliasBombBeforeItGrows) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const auto below = std::string("*a") + std::to_string(i - 1);
    bomb += std::string("a") + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below + ", " + below + ", " +
            below + "]\n";
  }
  EXPECT_THAT(error(bomb), HasSubstr("more than 100000 values once aliases are expanded"));
}

TEST_F(YamlReader, RefusesDepthMadeOfAliases) {
  std::string text = "a0: &a0 {x: 1}\n";
  for (int i = 1; i < 70; ++i) {
    text +=
        std::string("a") + std::to_string(i) + ": &a" + std::to_string(i) + " {x: *a" + std::to_string(i - 1) + "}\n";
  }
  EXPECT_THAT(error(text), HasSubstr("nested more than 64 levels deep"));
}

TEST_F(YamlReader, NamesAFileThatCannotBeRead) {
  EXPECT_EQ(error_of([] { load_yaml("missing.yaml"); }), "missing.yaml: cannot be read");
  EXPECT_EQ(error_of([] { load_yaml("."); }), ".: cannot be read");
}

TEST_F(YamlReader, EndsALongListOfMistakes) {
  std::string text = "a: 1\n";
  for (int i = 0; i < 103; ++i) text += "a: 1\n";
  EXPECT_THAT(error(text), testing::EndsWith("a.yaml:101:1: a: written twice; first at a.yaml:1:1\n... and 3 more"));
}

TEST_F(YamlReader, TakesFiftyThousandKeysInAMoment) {
  std::string text;
  for (int i = 0; i < 49'000; ++i) text.append("k").append(std::to_string(i)).append(": 1\n");
  EXPECT_EQ(load(text).entries().size(), 49'000U);
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include <ddprun/options.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A map of these entries, entry i at m.yaml:<i + 1>:9 with its key in column 3.
Value map_of(std::vector<std::pair<std::string, Value>> entries) {
  auto map = Value::map({.source = "m.yaml", .line = 1, .column = 1});
  int line = 0;
  for (auto& [key, value] : entries) {
    ++line;
    value.set_origin({.source = "m.yaml", .line = line, .column = 9});
    map.set(key, std::move(value), {.source = "m.yaml", .line = line, .column = 3});
  }
  return map;
}

Value plain(const std::string& text) { return Value::scalar(text); }

Value list_of(const std::vector<std::string>& texts) {
  auto list = Value::list();
  for (const auto& text : texts) list.items().push_back(plain(text));
  return list;
}

TEST(Options, ReadEveryType) {
  Options options(map_of({{"i", plain("-7")},
                          {"f", plain("1e-3")},
                          {"b", plain("true")},
                          {"s", plain("text")},
                          {"li", list_of({"1", "2"})},
                          {"lf", list_of({"0.9", "1"})},
                          {"ls", list_of({"a", "7"})}}),
                  "model");
  EXPECT_EQ(options.get<int64_t>("i", 0, "h"), -7);
  EXPECT_EQ(options.get<double>("f", 0, "h"), 1e-3);
  EXPECT_TRUE(options.get<bool>("b", false, "h"));
  EXPECT_EQ(options.get<std::string>("s", "", "h"), "text");
  EXPECT_THAT(options.get<std::vector<int64_t>>("li", {}, "h"), ElementsAre(1, 2));
  EXPECT_THAT(options.get<std::vector<double>>("lf", {}, "h"), ElementsAre(0.9, 1));
  EXPECT_THAT(options.get<std::vector<std::string>>("ls", {}, "h"), ElementsAre("a", "7"));
  EXPECT_THAT(options.problems(), IsEmpty());
}

TEST(Options, GiveDefaultsWhereNothingIsWritten) {
  Options options(Value(), "model");
  EXPECT_EQ(options.get<int64_t>("i", 3, "h"), 3);
  EXPECT_FALSE(options.has("i"));
  EXPECT_THAT(options.problems(), IsEmpty());
}

TEST(Options, NameTheUnknownKeyItsPlaceAndTheNearestKnownOne) {
  Options options(map_of({{"hiden", plain("3")}, {"zzz", plain("1")}}), "model");
  options.get<int64_t>("inputs", 1, "h");
  options.get<int64_t>("hidden", 1, "h");
  EXPECT_THAT(options.problems(),
              ElementsAre("m.yaml:1:3: model.hiden: unknown key; did you mean hidden? known: hidden, inputs",
                          "m.yaml:2:3: model.zzz: unknown key; known: hidden, inputs"));
}

TEST(Options, SayWhereThereAreNone) {
  Options options(map_of({{"x", plain("3")}}), "model");
  EXPECT_THAT(options.problems(), ElementsAre("m.yaml:1:3: model.x: unknown key; it takes no options"));
}

TEST(Options, RefuseAnotherTypeAndGoOnWithTheDefault) {
  Options options(map_of({{"i", plain("1.5")},
                          {"f", plain("nan")},
                          {"b", plain("yes")},
                          {"s", Value::list()},
                          {"n", Value()},
                          {"big", plain("99999999999999999999")},
                          {"sign", plain("+-1")},
                          {"unit", plain("3x")}}),
                  "m");
  EXPECT_EQ(options.get<int64_t>("i", 4, "h"), 4);
  EXPECT_EQ(options.get<double>("f", 4, "h"), 4);
  EXPECT_TRUE(options.get<bool>("b", true, "h"));
  EXPECT_EQ(options.get<std::string>("s", "d", "h"), "d");
  EXPECT_EQ(options.get<int64_t>("n", 4, "h"), 4);
  EXPECT_EQ(options.get<int64_t>("big", 4, "h"), 4);
  EXPECT_EQ(options.get<int64_t>("sign", 4, "h"), 4);
  EXPECT_EQ(options.get<double>("unit", 4, "h"), 4);
  EXPECT_THAT(
      options.problems(),
      ElementsAre("m.yaml:1:9: m.i: expected int, found \"1.5\"", "m.yaml:2:9: m.f: expected float, found \"nan\"",
                  "m.yaml:3:9: m.b: expected bool, found \"yes\"; write true",
                  "m.yaml:4:9: m.s: expected string, found a list", "m.yaml:5:9: m.n: expected int, found null",
                  "m.yaml:6:9: m.big: expected int, found \"99999999999999999999\"",
                  "m.yaml:7:9: m.sign: expected int, found \"+-1\"",
                  "m.yaml:8:9: m.unit: expected float, found \"3x\""));
}

TEST(Options, ReadBoolsOfYamlsCoreSchemaAndSayWhatOthersMean) {
  for (const auto* text : {"true", "True", "TRUE"}) {
    Options options(map_of({{"b", plain(text)}}), "m");
    EXPECT_TRUE(options.get<bool>("b", false, "h")) << text;
    EXPECT_THAT(options.problems(), IsEmpty());
  }
  for (const auto* text : {"false", "False", "FALSE"}) {
    Options options(map_of({{"b", plain(text)}}), "m");
    EXPECT_FALSE(options.get<bool>("b", true, "h")) << text;
    EXPECT_THAT(options.problems(), IsEmpty());
  }
  for (const auto& [text, word] : {std::pair("Yes", "true"),
                                   {"on", "true"},
                                   {"1", "true"},
                                   {"tRUE", "true"},
                                   {"no", "false"},
                                   {"OFF", "false"},
                                   {"0", "false"}}) {
    Options options(map_of({{"b", plain(text)}}), "m");
    options.get<bool>("b", true, "h");
    EXPECT_THAT(options.problems(), ElementsAre(testing::EndsWith(std::string("; write ") + word)));
  }
  Options quoted(map_of({{"b", Value::scalar("true", {}, true)}}), "m");
  quoted.get<bool>("b", true, "h");
  EXPECT_THAT(quoted.problems(),
              ElementsAre("m.yaml:1:9: m.b: expected bool, found \"true\"; write true without quotes"));
}

TEST(Options, RefuseNumbersThatMayBeOctal) {
  for (const auto* text : {"010", "-07", "00", "+08"}) {
    Options options(map_of({{"i", plain(text)}, {"f", plain(text)}, {"l", list_of({"1", text})}}), "m");
    options.get<int64_t>("i", 0, "h");
    options.get<double>("f", 0, "h");
    options.get<std::vector<int64_t>>("l", {}, "h");
    EXPECT_THAT(options.problems(), testing::SizeIs(3)) << text;
    EXPECT_THAT(options.problems(), testing::Each(testing::HasSubstr("write it without the leading 0")));
  }
  Options options(map_of({{"i", plain("0")}, {"f", plain("0.5")}, {"g", plain("-0")}}), "m");
  EXPECT_EQ(options.get<int64_t>("i", 1, "h"), 0);
  EXPECT_EQ(options.get<double>("f", 1, "h"), 0.5);
  EXPECT_EQ(options.get<int64_t>("g", 1, "h"), 0);
  EXPECT_THAT(options.problems(), IsEmpty());
}

TEST(Options, TakeAQuotedNumberForAText) {
  Options options(map_of({{"i", Value::scalar("7", {}, true)}, {"s", Value::scalar("7", {}, true)}}), "m");
  options.get<int64_t>("i", 0, "h");
  EXPECT_EQ(options.get<std::string>("s", "", "h"), "7");
  EXPECT_THAT(options.problems(), ElementsAre("m.yaml:1:9: m.i: expected int, found \"7\""));
}

TEST(Options, CheckRangesBoundsIncluded) {
  Options options(
      map_of(
          {{"low", plain("1")}, {"high", plain("1.0000001")}, {"list", list_of({"0.5", "-1"})}, {"most", plain("9")}}),
      "m");
  EXPECT_EQ(options.get<int64_t>("low", 5, "h", {.min = 1}), 1);
  options.get<double>("high", 0, "h", {0, 1});
  options.get<std::vector<double>>("list", {}, "h", {.min = 0});
  options.get<int64_t>("most", 0, "h", {.max = 8});
  EXPECT_THAT(options.problems(), ElementsAre("m.yaml:2:9: m.high: expected float 0 .. 1, found 1.0000001",
                                              "m.yaml:3:9: m.list: expected list of float >= 0, found [0.5, -1]",
                                              "m.yaml:4:9: m.most: expected int <= 8, found 9"));
}

TEST(Options, NameTheItemOfAListThatDoesNotFit) {
  Options options(map_of({{"betas", list_of({"0.9", "x"})}, {"one", plain("0.9")}}), "m");
  options.get<std::vector<double>>("betas", {}, "h");
  options.get<std::vector<double>>("one", {}, "h");
  EXPECT_THAT(options.problems(), ElementsAre("m.yaml:1:9: m.betas: expected list of float, found \"x\" at index 1",
                                              "m.yaml:2:9: m.one: expected list of float, found \"0.9\""));
}

TEST(Options, TakeANumberForAListWhoseFallbackIsOne) {
  Options options(map_of({{"mean", plain("0.5")}, {"std", list_of({"1", "2"})}, {"scale", plain("x")}}), "m");
  EXPECT_THAT(options.get<std::vector<double>>("mean", {0}, "h"), ElementsAre(0.5));
  EXPECT_THAT(options.get<std::vector<double>>("std", {1}, "h"), ElementsAre(1, 2));
  EXPECT_THAT(options.get<std::vector<double>>("scale", {1}, "h"), ElementsAre(1));
  EXPECT_THAT(options.problems(), ElementsAre("m.yaml:3:9: m.scale: expected list of float, found \"x\""));
}

TEST(Options, RequireWhatHasNoDefault) {
  Options options(map_of({{"x", plain("3")}}), "m");
  EXPECT_EQ(options.require<int64_t>("x", "h"), 3);
  options.require<std::string>("path", "where the data lie");
  EXPECT_THAT(options.problems(),
              ElementsAre("m.yaml:1:1: m.path: missing; it has no default (string: where the data lie)"));
  Options none(Value(), "m");
  none.require<int64_t>("x", "h");
  EXPECT_THAT(none.problems(), ElementsAre("m.x: missing; it has no default (int: h)"));
}

TEST(Options, ChooseAmongWords) {
  Options options(map_of({{"a", plain("mean")}, {"b", plain("maen")}}), "m");
  EXPECT_EQ(options.choose("a", "sum", {"sum", "mean"}, "h"), "mean");
  EXPECT_EQ(options.choose("b", "sum", {"sum", "mean"}, "h"), "sum");
  EXPECT_THAT(options.problems(),
              ElementsAre("m.yaml:2:9: m.b: expected sum | mean, found \"maen\"; did you mean mean?"));
}

TEST(Options, GivePathsThatMeanTheSameFromEveryFolder) {
  const auto in_file = [](const std::string& text) {
    return Value::scalar(text, {.source = "/experiments/m.yaml", .line = 2, .column = 7});
  };
  auto pair = Value::list();
  pair.items() = {in_file("a.npy"), in_file("/data/b.npy")};
  auto map = Value::map();
  map.set("root", in_file("../data"));
  map.set("pair", std::move(pair));
  map.set("one", Value::scalar("c.npy", {.source = "command line"}));
  map.set("none", in_file(""));
  Options options(std::move(map), "dataset");
  using Path = std::filesystem::path;
  EXPECT_EQ(options.require<Path>("root", "h"), "/data");
  EXPECT_THAT(options.get<std::vector<Path>>("pair", {}, "h"), ElementsAre("/experiments/a.npy", "/data/b.npy"));
  EXPECT_THAT(options.get<std::vector<Path>>("one", {}, "h"), ElementsAre(std::filesystem::current_path() / "c.npy"));
  EXPECT_EQ(options.get<Path>("none", "x", "h"), "");
  EXPECT_EQ(options.get<Path>("absent", "", "h"), "");
  EXPECT_EQ(options.declared()[1].type, "list of path");
}

TEST(Options, HandOutSubtrees) {
  Options options(map_of({{"a", list_of({"1"})}}), "m");
  EXPECT_TRUE(options.subtree("a", "h").is_list());
  EXPECT_TRUE(options.subtree("b", "h").is_null());
  EXPECT_THAT(options.problems(), IsEmpty());
}

TEST(Options, NoteWhatTheReaderRejects) {
  Options options(map_of({{"hidden", plain("3")}}), "m");
  options.get<int64_t>("hidden", 1, "h");
  options.reject("hidden", "must divide inputs, 784");
  options.reject("absent", "must not be absent");
  EXPECT_THAT(options.problems(),
              ElementsAre("m.yaml:1:9: m.hidden: must divide inputs, 784", "m.yaml:1:1: m.absent: must not be absent"));
}

TEST(Options, RefuseWhatIsNoMap) {
  Options options(Value::scalar("3", {.source = "m.yaml", .line = 2, .column = 4}), "trainer");
  EXPECT_EQ(options.get<int64_t>("x", 1, "h"), 1);
  EXPECT_THAT(options.problems(), ElementsAre("m.yaml:2:4: trainer: expected a map of options, found \"3\""));
}

TEST(Options, LeaveAnEmptyPathOutOfTheirTexts) {
  Options options(map_of({{"sed", plain("3")}}), "");
  options.get<int64_t>("seed", 1, "h");
  EXPECT_THAT(options.problems(), ElementsAre("m.yaml:1:3: sed: unknown key; did you mean seed? known: seed"));
}

TEST(Options, TellWhatWasDeclared) {
  Options options(Value(), "m");
  options.get<double>("lr", 0.05, "learning rate", {.min = 0});
  options.get<std::vector<double>>("betas", {0.9, 0.999}, "decay rates", {0, 1});
  options.get<double>("target", std::nan(""), "none by default");
  options.require<std::string>("path", "h");
  options.get<double>("lr", 0.05, "learning rate", {.min = 0});  // read twice, told once
  const auto& declared = options.declared();
  ASSERT_EQ(declared.size(), 4U);
  EXPECT_EQ(declared[0].name + "|" + declared[0].type + "|" + declared[0].fallback + "|" + declared[0].range,
            "lr|float|0.05|>= 0");
  EXPECT_EQ(declared[1].type + "|" + declared[1].fallback + "|" + declared[1].range,
            "list of float|[0.9, 0.999]|0 .. 1");
  EXPECT_EQ(declared[2].fallback, "");
  EXPECT_TRUE(declared[3].required);
}

TEST(NearestName, AllowsAThirdOfTheLettersToBeWrong) {
  EXPECT_EQ(nearest_name("max_epoch", {"max_steps", "max_epochs"}), "max_epochs");
  EXPECT_EQ(nearest_name("ls", {"lr"}), "lr");
  EXPECT_EQ(nearest_name("maen", {"mean"}), "mean");  // a swap is one mistake
  EXPECT_EQ(nearest_name("zzz", {"lr", "momentum"}), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include <ddprun/options.h>

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

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
Value quoted(const std::string& text) { return Value::scalar(text, {}, true); }

Value list_of(const std::vector<std::string>& texts) {
  auto list = Value::list();
  for (const auto& text : texts) list.items().push_back(plain(text));
  return list;
}

// What is said of an option x of this value, where it is read so; "" where nothing is.
using Reader = std::function<void(Options&)>;
std::string problem_of(const Value& value, const Reader& read) {
  Options options(map_of({{"x", value}}), "m");
  read(options);
  EXPECT_LE(options.problems().size(), 1U);
  return options.problems().empty() ? "" : options.problems().front();
}

const Reader kInt = [](Options& options) { EXPECT_EQ(options.get<int64_t>("x", 4, "h"), 4); };
const Reader kFloat = [](Options& options) { EXPECT_EQ(options.get<double>("x", 4, "h"), 4); };
const Reader kBool = [](Options& options) { EXPECT_TRUE(options.get<bool>("x", true, "h")); };
const Reader kText = [](Options& options) { EXPECT_EQ(options.get<std::string>("x", "d", "h"), "d"); };
const Reader kInts = [](Options& options) { options.get<std::vector<int64_t>>("x", {}, "h"); };
const Reader kFloats = [](Options& options) { options.get<std::vector<double>>("x", {}, "h"); };

TEST(Options, ReadEveryType) {
  Options options(map_of({{"i", plain("-7")},
                          {"f", plain("1e-3")},
                          {"s", plain("text")},
                          {"q", quoted("7")},
                          {"li", list_of({"1", "2"})},
                          {"lf", list_of({"0.9", "1"})},
                          {"ls", list_of({"a", "7"})},
                          {"zero", plain("-0")},
                          {"part", plain("0.5")}}),
                  "model");
  EXPECT_EQ(options.get<int64_t>("i", 0, "h"), -7);
  EXPECT_EQ(options.get<double>("f", 0, "h"), 1e-3);
  EXPECT_EQ(options.get<std::string>("s", "", "h"), "text");
  EXPECT_EQ(options.get<std::string>("q", "", "h"), "7");
  EXPECT_THAT(options.get<std::vector<int64_t>>("li", {}, "h"), ElementsAre(1, 2));
  EXPECT_THAT(options.get<std::vector<double>>("lf", {}, "h"), ElementsAre(0.9, 1));
  EXPECT_THAT(options.get<std::vector<std::string>>("ls", {}, "h"), ElementsAre("a", "7"));
  EXPECT_EQ(options.get<int64_t>("zero", 1, "h"), 0);
  EXPECT_THAT(options.get<std::vector<double>>("part", {0}, "h"), ElementsAre(0.5)) << "for a list of one number";
  EXPECT_EQ(options.get<int64_t>("absent", 3, "h"), 3);
  EXPECT_FALSE(options.has("absent"));
  EXPECT_THAT(options.problems(), IsEmpty());
  for (const auto& [text, meant] : {std::pair("true", true),
                                    {"True", true},
                                    {"TRUE", true},
                                    {"false", false},
                                    {"False", false},
                                    {"FALSE", false}}) {
    Options bools(map_of({{"b", plain(text)}}), "m");
    EXPECT_EQ(bools.get<bool>("b", !meant, "h"), meant) << text;
    EXPECT_THAT(bools.problems(), IsEmpty());
  }
}

TEST(Options, RefuseAnotherTypeAndTakeTheDefault) {
  struct Row {
    Value value;
    Reader read;
    std::string said;  // behind the place
  };
  const std::vector<Row> rows{
      {plain("1.5"), kInt, "expected int, found \"1.5\""},
      {plain("nan"), kFloat, "expected float, found \"nan\""},
      {Value::list(), kText, "expected string, found a list"},
      {Value(), kInt, "expected int, found null"},
      {plain("99999999999999999999"), kInt, "expected int, found \"99999999999999999999\""},
      {plain("+-1"), kInt, "expected int, found \"+-1\""},
      {plain("3x"), kFloat, "expected float, found \"3x\""},
      {quoted("7"), kInt, "expected int, found \"7\""},
      {list_of({"0.9", "x"}), kFloats, "expected list of float, found \"x\" at index 1"},
      {plain("0.9"), kFloats, "expected list of float, found \"0.9\""},
      {plain("x"), [](Options& options) { options.get<std::vector<double>>("x", {1}, "h"); },
       "expected list of float, found \"x\""},
      {plain("1.0000001"), [](Options& options) { options.get<double>("x", 0, "h", {0, 1}); },
       "expected float 0 .. 1, found 1.0000001"},
      {list_of({"0.5", "-1"}), [](Options& options) { options.get<std::vector<double>>("x", {}, "h", {.min = 0}); },
       "expected list of float >= 0, found [0.5, -1]"},
      {plain("9"), [](Options& options) { options.get<int64_t>("x", 0, "h", {.max = 8}); },
       "expected int <= 8, found 9"},
      {plain("8"), [](Options& options) { options.get<int64_t>("x", 0, "h", {.max = 8}); }, ""},
      {plain("maen"), [](Options& options) { EXPECT_EQ(options.choose("x", "sum", {"sum", "mean"}, "h"), "sum"); },
       "expected sum | mean, found \"maen\"; did you mean mean?"},
      {plain("mean"), [](Options& options) { EXPECT_EQ(options.choose("x", "sum", {"sum", "mean"}, "h"), "mean"); },
       ""},
      {plain("yes"), kBool, "expected bool, found \"yes\"; write true"},
      {plain("on"), kBool, "expected bool, found \"on\"; write true"},
      {plain("1"), kBool, "expected bool, found \"1\"; write true"},
      {plain("tRUE"), kBool, "expected bool, found \"tRUE\"; write true"},
      {plain("no"), kBool, "expected bool, found \"no\"; write false"},
      {plain("OFF"), kBool, "expected bool, found \"OFF\"; write false"},
      {plain("0"), kBool, "expected bool, found \"0\"; write false"},
      {quoted("true"), kBool, "expected bool, found \"true\"; write true without quotes"}};
  for (const auto& row : rows)
    EXPECT_EQ(problem_of(row.value, row.read), row.said.empty() ? "" : "m.yaml:1:9: m.x: " + row.said);
  for (const auto* text : {"010", "-07", "00", "+08"}) {
    for (const auto& [value, read] :
         {std::pair(plain(text), kInt), {plain(text), kFloat}, {list_of({"1", text}), kInts}})
      EXPECT_THAT(problem_of(value, read), testing::HasSubstr("write it without the leading 0"));
  }
}

TEST(Options, NameTheUnknownKeyItsPlaceAndTheNearestKnownOne) {
  Options options(map_of({{"hiden", plain("3")}, {"zzz", plain("1")}}), "model");
  options.get<int64_t>("inputs", 1, "h");
  options.get<int64_t>("hidden", 1, "h");
  EXPECT_THAT(options.problems(),
              ElementsAre("m.yaml:1:3: model.hiden: unknown key; did you mean hidden? known: hidden, inputs",
                          "m.yaml:2:3: model.zzz: unknown key; known: hidden, inputs"));
  EXPECT_THAT(Options(map_of({{"x", plain("3")}}), "model").problems(),
              ElementsAre("m.yaml:1:3: model.x: unknown key; it takes no options"));
  EXPECT_THAT(Options(map_of({{"sed", plain("3")}}), "").problems(),
              ElementsAre("m.yaml:1:3: sed: unknown key; it takes no options"));
}

TEST(Options, RequireWhatHasNoDefaultAndNoteWhatTheReaderRejects) {
  Options options(map_of({{"x", plain("3")}}), "m");
  EXPECT_EQ(options.require<int64_t>("x", "h"), 3);
  options.require<std::string>("path", "where the data lie");
  options.reject("x", "must divide inputs, 784");
  options.reject("absent", "must not be absent");
  EXPECT_THAT(options.problems(),
              testing::UnorderedElementsAre(
                  "m.yaml:1:1: m.path: missing; it has no default (string: where the data lie)",
                  "m.yaml:1:9: m.x: must divide inputs, 784", "m.yaml:1:1: m.absent: must not be absent"));
  Options none(Value(), "m");
  none.require<int64_t>("x", "h");
  EXPECT_THAT(none.problems(), ElementsAre("m.x: missing; it has no default (int: h)"));
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

TEST(Options, HandOutSubtreesAndRefuseWhatIsNoMap) {
  Options options(map_of({{"a", list_of({"1"})}}), "m");
  EXPECT_TRUE(options.subtree("a", "h").is_list());
  EXPECT_TRUE(options.subtree("b", "h").is_null());
  EXPECT_THAT(options.problems(), IsEmpty());
  Options none(Value::scalar("3", {.source = "m.yaml", .line = 2, .column = 4}), "trainer");
  EXPECT_EQ(none.get<int64_t>("x", 1, "h"), 1);
  EXPECT_THAT(none.problems(), ElementsAre("m.yaml:2:4: trainer: expected a map of options, found \"3\""));
}

TEST(Options, SayWhatWasDeclared) {
  Options options(Value(), "m");
  options.get<double>("lr", 0.05, "learning rate", {.min = 0});
  options.get<std::vector<double>>("betas", {0.9, 0.999}, "decay rates", {0, 1});
  options.get<double>("target", std::nan(""), "none by default");
  options.require<std::string>("path", "h");
  options.get<double>("lr", 0.05, "learning rate", {.min = 0});  // read twice, declared once
  std::vector<std::string> declared;
  for (const auto& one : options.declared())
    declared.push_back(one.name + "|" + one.type + "|" + one.fallback + "|" + one.range);
  EXPECT_THAT(declared, ElementsAre("lr|float|0.05|>= 0", "betas|list of float|[0.9, 0.999]|0 .. 1", "target|float||",
                                    "path|string||"));
  EXPECT_TRUE(options.declared()[3].required);
}

TEST(NearestName, AllowsAThirdOfTheLettersToBeWrong) {
  EXPECT_EQ(nearest_name("max_epoch", {"max_steps", "max_epochs"}), "max_epochs");
  EXPECT_EQ(nearest_name("ls", {"lr"}), "lr");
  EXPECT_EQ(nearest_name("maen", {"mean"}), "mean");  // a swap is one mistake
  EXPECT_EQ(nearest_name("zzz", {"lr", "momentum"}), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Value, KeepsTheOrderOfKeysAndCopiesDeeply) {
  auto map = Value::map();
  map.set("b", Value::scalar("1"));
  map.set("a", Value::list()).items().push_back(Value::scalar("1"));
  map.set("b", Value::scalar("3"), {.source = "x", .line = 12, .column = 5});
  ASSERT_EQ(map.entries().size(), 2U);
  EXPECT_EQ(map.entries()[0].key, "b");
  EXPECT_EQ(map.entries()[0].value.text(), "3");
  EXPECT_EQ(map.entries()[0].key_origin.text(), "x:12:5");
  auto copy = map;
  copy.find("a")->items()[0] = Value::scalar("2");
  EXPECT_EQ(map.find("a")->items()[0].text(), "1");
  EXPECT_TRUE(map.erase("a"));
  EXPECT_FALSE(map.erase("a"));
}

TEST(Value, DescribesWhatWasFound) {
  const auto many = std::string(200, 'x'), most = std::string(79, 'x');
  for (const auto& [value, text] : {std::pair(Value(), std::string("null")),
                                    {Value::list(), "a list"},
                                    {Value::map(), "a map"},
                                    {plain("7"), "\"7\""},
                                    {plain(most + "\u00e9" + many), "\"" + most + "...\""}})
    EXPECT_EQ(describe(value), text);
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "alphabet.h"
#include "grammar.h"
#include "idx_writer.h"
#include "utf8.h"

#include <ddprun/testing.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <regex>

namespace ddprun::test {
namespace {

using check::Settings;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<Dataset> start(const Settings& settings) {
  const auto data = check::dataset_plugin(TEXT_PLUGIN, settings)();
  data->start();
  return data;
}

std::string joined(const at::Tensor& classes, const DataSpec& spec) {
  std::string text;
  for (int64_t i = 0; i < classes.numel(); ++i)
    text += spec.class_names.at(static_cast<size_t>(classes[i].item<int64_t>()));
  return text;
}

// A text without any order, of letters that are class names as they are.
std::string letters(size_t count) {
  RandomStream random(7, 7);
  std::string text = "abcdef";
  while (text.size() < count) text += static_cast<char>('a' + random.below(6));
  return text;
}

class Text : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& bytes) {
    return write_file(folder_ / name, bytes).string();
  }

  // What is wrong with a file of these bytes.
  std::string problem(const std::string& bytes, int64_t context = 4) {
    return message_of<UserError>([&] { start({{"file", put("a.txt", bytes)}, {"context", context}}); });
  }

  TestFolder folder_;
};

TEST_F(Text, KeepsWhatADatasetPromises) {
  EXPECT_THAT(check::all({.make = check::dataset_plugin(TEXT_PLUGIN, {{"size", 5'000}, {"context", 16}})}), IsEmpty());
  const auto file = put("a.txt", letters(500) + "Z!");
  EXPECT_THAT(check::all({.make = check::dataset_plugin(TEXT_PLUGIN, {{"file", file}, {"context", 5}})}), IsEmpty());
}

TEST_F(Text, WindowsFollowEachOtherAndNoneLeavesItsSplit) {
  constexpr int64_t kContext = 7;
  const auto text = letters(1'000);
  const auto data =
      start({{"file", put("a.txt", text)}, {"context", kContext}, {"val_fraction", 0.25}, {"test_fraction", 0.1}});
  const auto spec = data->spec();
  EXPECT_EQ(spec.sample_shape, std::vector<int64_t>{kContext});
  size_t begin = 0;
  for (const auto& [split, characters] : {std::pair{Split::kTrain, 650}, {Split::kVal, 250}, {Split::kTest, 100}}) {
    ASSERT_EQ(data->size(split), (characters - 1) / kContext);
    for (int64_t i = 0; i < data->size(split); ++i) {
      const auto batch = data->get(split, std::vector{i});
      const auto at = begin + static_cast<size_t>(i * kContext);
      EXPECT_EQ(joined(batch.input[0], spec), text.substr(at, kContext));
      EXPECT_EQ(joined(batch.target[0], spec), text.substr(at + 1, kContext));
      EXPECT_LT(at + kContext, begin + static_cast<size_t>(characters));
    }
    begin += static_cast<size_t>(characters);
  }
  EXPECT_THROW(data->get(Split::kVal, std::vector<int64_t>{data->size(Split::kVal)}), std::out_of_range);
}

TEST_F(Text, TheAlphabetIsThatOfTheTrainingPart) {
  const auto file = put("a.txt",
                        "b \xC3\xA9\na\xE2\x80\x8B\xF0\x9F\x90\x88"
                        "bbb"
                        "aa");
  EXPECT_THAT(start({{"file", file}, {"context", 1}, {"val_fraction", 0.17}, {"test_fraction", 0}})->spec().class_names,
              ElementsAre("\\n", "space", "a", "b", "\xC3\xA9", "\\u200b", "\xF0\x9F\x90\x88"));
}

TEST_F(Text, CharactersThatTrainingLacksAreOneClassUnknown) {
  const Settings settings{
      {"file", put("a.txt", "abababababXaYbXa")}, {"context", 2}, {"val_fraction", 0.2}, {"test_fraction", 0.2}};
  const auto data = start(settings);
  EXPECT_THAT(data->spec().class_names, ElementsAre("a", "b", "unknown"));
  const auto val = data->get(Split::kVal, std::vector<int64_t>{0});
  EXPECT_TRUE(val.input.equal(at::tensor({2, 0}, at::kLong).view({1, 2})));
  EXPECT_TRUE(val.target.equal(at::tensor({0, 2}, at::kLong).view({1, 2})));
}

TEST_F(Text, SeveralFilesAreJoinedInTheirOrder) {
  const auto one = put("1.txt",
                       "\xEF\xBB\xBF"
                       "abc"),
             two = put("2.txt",
                       "\xEF\xBB\xBF"
                       "dcba");
  const auto data = start({{"file", {one, two}}, {"context", 6}, {"val_fraction", 0}, {"test_fraction", 0}});
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{0});
  EXPECT_EQ(joined(batch.input[0], data->spec()) + "|" + joined(batch.target[0], data->spec()), "abcdcb|bcdcba");
  EXPECT_EQ(data->size(Split::kVal), 0);
}

TEST_F(Text, NamesFilesThatAreNoTexts) {
  const auto place = (folder_ / "a.txt").string();
  EXPECT_THAT(message_of<UserError>([&] { start({{"file", place}}); }),
              AllOf(HasSubstr(place), HasSubstr("cannot be opened: No such file"), HasSubstr("UTF-8 text file")));
  EXPECT_THAT(message_of<UserError>([&] { start({{"file", folder_.path().string()}}); }), HasSubstr("is a folder"));
  EXPECT_EQ(problem(""), place + ": the file is empty; expected a UTF-8 text file");
  EXPECT_THAT(problem("one\ntw\xE9\n"),
              AllOf(HasSubstr(place + ": byte 6, 0xE9 in line 2, is not UTF-8"), HasSubstr("iconv -f LATIN1")));
  EXPECT_THAT(problem("\xFF\xFEo\n"), HasSubstr("iconv -f UTF-16"));
}

TEST_F(Text, NamesTheSplitThatIsShorterThanAWindow) {
  EXPECT_THAT(problem("abcd"), HasSubstr("a.txt: the split train has 4 of its 4 characters, expected at least 5"));
  EXPECT_THAT(problem(letters(40)), HasSubstr("the split val has 4 of its 40 characters"));
  EXPECT_THAT(problem(letters(40)), HasSubstr("or set dataset.val_fraction=0"));
  EXPECT_EQ(problem(letters(50)), "nothing thrown");
  EXPECT_THAT(problem(letters(50), 5), HasSubstr("a window of dataset.context=5 and one more"));
  EXPECT_THAT(message_of<UserError>([] { start({{"size", 100}}); }), HasSubstr("dataset: the generated text"));
}

TEST_F(Text, FindsMistakesBeforeAnyWorkerStarts) {
  const auto data = check::dataset_plugin(TEXT_PLUGIN, {{"file", (folder_ / "absent.txt").string()}})();
  EXPECT_THAT(message_of<UserError>([&] { data->prepare({}); }), HasSubstr("absent.txt: cannot be opened"));
}

TEST_F(Text, RefusesOptionsThatContradictEachOther) {
  const auto problems = [](const Settings& settings) { return check::option_problems(TEXT_PLUGIN, settings); };
  EXPECT_THAT(problems({{"file", "a.txt"}, {"size", 9}}), HasSubstr("dataset.size: applies only to a generated text"));
  EXPECT_THAT(problems({{"file", ""}}), HasSubstr("dataset.file: expected a text file or a list of them"));
  EXPECT_THAT(problems({{"val_fraction", 0.5}, {"test_fraction", 0.5}}), HasSubstr("no more than 0.95 together"));
  EXPECT_EQ(problems({{"file", "a.txt"}}), "");
}

TEST(Utf8, EveryCodePointSurvives) {
  std::string bytes;
  std::u32string expected;
  for (char32_t point = 0; point < text::kCodePoints; point += point < 0x900 ? 1 : 61) {
    if (point >= 0xD800 && point < 0xE000) continue;
    expected += point;
    bytes += text::encode_utf8(point);
  }
  EXPECT_EQ(text::decode_utf8(bytes, "a.txt"), expected);
}

TEST(Utf8, RefusesBytesThatAreNone) {
  const auto refused = {"\x80",
                        "\xC0\xAF",
                        "\xC1\xBF",
                        "\xC3",
                        "\xC3(",
                        "\xE0\x9F\xBF",
                        "\xED\xA0\x80",
                        "\xE2\x82",
                        "\xF0\x8F\xBF\xBF",
                        "\xF4\x90\x80\x80",
                        "\xF5\x80\x80\x80",
                        "\xFF"};
  for (const std::string bytes : refused) {
    EXPECT_THAT(message_of<UserError>([&] { text::decode_utf8("ok" + bytes, "a.txt"); }), HasSubstr("a.txt: byte 2, "))
        << ::testing::PrintToString(bytes);
  }
}

TEST(Grammar, LinesAreAsSurprisingAsTheirEntropySays) {
  RandomStream random(1, 2);
  std::string text;
  double nats = 0;
  for (int line = 0; line < 20'000; ++line) nats += text::append_line(text, random);
  EXPECT_NEAR(nats / static_cast<double>(text.size()), text::nats_per_character(), 0.002);
  EXPECT_NEAR(std::exp(text::nats_per_character()), 1.504, 0.001);  // what the help of dataset.size says
}

TEST(Grammar, VerbsAgreeWithTheFirstNoun) {
  const std::regex first_verb("^(A|Some) .*? (?:see|find|like|follow|help|hear|want|chase)(s?) ");
  RandomStream random(1, 3);
  int seen = 0;
  for (int i = 0; i < 200; ++i) {
    std::string line;
    text::append_line(line, random);
    std::smatch found;
    if (!std::regex_search(line, found, first_verb)) continue;
    EXPECT_EQ(found[1] == "A", found[2] == "s") << line;
    ++seen;
  }
  EXPECT_GT(seen, 50);
}

TEST(Grammar, ASeedGivesItsOwnText) {
  const auto first = [](int64_t seed) {
    const auto data = start({{"seed", seed}, {"size", 2'000}, {"context", 60}});
    return joined(data->get(Split::kTrain, std::vector<int64_t>{0}).input[0], data->spec());
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

}  // namespace
}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
#include "alphabet.h"
#include "grammar.h"
#include "plugin_under_test.h"
#include "utf8.h"

#include <ddprun/testing.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

namespace ddprun::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<Dataset> start(const Settings& settings) { return started_dataset(TEXT_PLUGIN, settings); }

std::string problem(const Settings& settings) {
  return error_of([&] { start(settings); });
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

class Text : public FolderTest {
 protected:
  std::string put(const std::string& name, const std::string& bytes) const {
    return write_bytes(folder_ / name, bytes).string();
  }
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
      start({{"file", put("a.txt", text)}, {"context", "7"}, {"val_fraction", "0.25"}, {"test_fraction", "0.1"}});
  const auto spec = data->spec();
  EXPECT_EQ(spec.sample_shape, std::vector<int64_t>{kContext});
  size_t begin = 0;
  for (const auto& [split, characters] : {std::pair{Split::kTrain, 650}, {Split::kVal, 250}, {Split::kTest, 100}}) {
    ASSERT_EQ(data->size(split), (characters - 1) / kContext);
    const auto batch = first(*data, split, data->size(split));
    for (int64_t i = 0; i < data->size(split); ++i) {
      const auto at = begin + static_cast<size_t>(i * kContext);
      EXPECT_EQ(joined(batch.input[i], spec), text.substr(at, kContext));
      EXPECT_EQ(joined(batch.target[i], spec), text.substr(at + 1, kContext));
      EXPECT_LT(at + kContext, begin + static_cast<size_t>(characters));
    }
    begin += static_cast<size_t>(characters);
  }
  EXPECT_THROW(data->get(Split::kVal, Numbers{data->size(Split::kVal)}), std::out_of_range);
}

TEST_F(Text, TheAlphabetIsThatOfTheTrainingPartAndTheRestIsOneClassUnknown) {
  const auto file = put("a.txt", "b \xC3\xA9\na\xE2\x80\x8B\xF0\x9F\x90\x88" + std::string("bbbaa"));
  const auto whole = start({{"file", file}, {"context", "1"}, {"val_fraction", "0.17"}, {"test_fraction", "0"}});
  EXPECT_THAT(whole->spec().class_names,
              ElementsAre("\\n", "space", "a", "b", "\xC3\xA9", "\\u200b", "\xF0\x9F\x90\x88"));
  const auto data = start({{"file", put("b.txt", "abababababXaYbXa")},
                           {"context", "2"},
                           {"val_fraction", "0.2"},
                           {"test_fraction", "0.2"}});
  EXPECT_THAT(data->spec().class_names, ElementsAre("a", "b", "unknown"));
  const auto val = data->get(Split::kVal, Numbers{0});
  EXPECT_TRUE(val.input.equal(at::tensor({2, 0}, at::kLong).view({1, 2})));
  EXPECT_TRUE(val.target.equal(at::tensor({0, 2}, at::kLong).view({1, 2})));
}

TEST_F(Text, SeveralFilesAreJoinedInTheirOrderWithoutTheirMarks) {
  const std::string mark = "\xEF\xBB\xBF";
  const auto files = "[" + put("1.txt", mark + "abc") + ", " + put("2.txt", mark + "dcba") + "]";
  const auto data = start({{"file", files}, {"context", "6"}, {"val_fraction", "0"}, {"test_fraction", "0"}});
  const auto batch = data->get(Split::kTrain, Numbers{0});
  EXPECT_EQ(joined(batch.input[0], data->spec()) + "|" + joined(batch.target[0], data->spec()), "abcdcb|bcdcba");
  EXPECT_EQ(data->size(Split::kVal), 0);
}

TEST_F(Text, NamesFilesThatAreNoTextsOrTooShort) {
  const auto place = (folder_ / "a.txt").string();
  EXPECT_TRUE(says(problem({{"file", place}}), place + ": cannot be opened: No such file ... UTF-8 text file"));
  expect_refused([&](const std::string& bytes) { return problem({{"file", put("a.txt", bytes)}, {"context", "4"}}); },
                 {{"", place + ": the file is empty; expected a UTF-8 text file"},
                  {"one\ntw\xE9\n", place + ": byte 6, 0xE9 in line 2, is not UTF-8 ... iconv -f LATIN1"},
                  {"\xFF\xFEo\n", "iconv -f UTF-16"},
                  {"abcd", "a.txt: the split train has 4 of its 4 characters, expected at least 5"},
                  {letters(40), "the split val has 4 of its 40 characters ... or set dataset.val_fraction=0"},
                  {letters(50), ""}});
  const auto absent = load_dataset(TEXT_PLUGIN, {{"file", (folder_ / "absent.txt").string()}});
  EXPECT_TRUE(says(error_of([&] { absent->prepare({}); }), "absent.txt: cannot be opened"));
  expect_refused<Settings>(problem,
                           {{{{"file", folder_}}, "is a folder"},
                            {{{"file", place}, {"context", "5"}}, "a window of dataset.context=5 and one more"},
                            {{{"size", "100"}}, "dataset: the generated text"},
                            {{{"file", place}, {"size", "9"}}, "dataset.size: applies only to a generated text"},
                            {{{"file", ""}}, "dataset.file: expected a text file or a list of them"},
                            {{{"val_fraction", "0.5"}, {"test_fraction", "0.5"}}, "no more than 0.95 together"}});
}

TEST(Utf8, EveryCodePointSurvivesAndOtherBytesAreRefused) {
  std::string bytes;
  std::u32string expected;
  for (char32_t point = 0; point < text::kCodePoints; point += point < 0x900 ? 1 : 61) {
    if (point >= 0xD800 && point < 0xE000) continue;
    expected += point;
    bytes += text::encode_utf8(point);
  }
  EXPECT_EQ(text::decode_utf8(bytes, "a.txt"), expected);
  for (const std::string refused : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80",
                                    "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    EXPECT_TRUE(says(error_of([&] { text::decode_utf8("ok" + refused, "a.txt"); }), "a.txt: byte 2, "))
        << ::testing::PrintToString(refused);
}

TEST(Grammar, LinesAreAsSurprisingAsTheirEntropySays) {
  RandomStream random(1, 2);
  std::string text;
  double nats = 0;
  for (int line = 0; line < 20'000; ++line) nats += text::append_line(text, random);
  EXPECT_NEAR(nats / static_cast<double>(text.size()), text::nats_per_character(), 0.002);
  EXPECT_NEAR(std::exp(text::nats_per_character()), 1.504, 0.001);  // what the help of dataset.size says
}

TEST(Grammar, ASeedGivesItsOwnText) {
  const auto drawn = [](const std::string& seed) {
    const auto data = start({{"seed", seed}, {"size", "2000"}, {"context", "60"}});
    return joined(data->get(Split::kTrain, Numbers{0}).input[0], data->spec());
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
}

}  // namespace
}  // namespace ddprun::test

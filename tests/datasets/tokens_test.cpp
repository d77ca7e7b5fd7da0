// SPDX-License-Identifier: MIT
#include "plugin_under_test.h"
#include "support/written_files.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <sys/stat.h>

namespace ddprun::test {
namespace {

using ::testing::ElementsAre;

template <class Token>
std::string counting(int count, int from = 0) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<Token>(from));
  return bytes_of(tokens);
}

const std::string kNote = R"({"dtype": "uint16", "tokens": 10, "vocabulary": 100})";
const std::string kDocuments = bytes_of(std::vector<uint16_t>{5, 6, 0, 7, 8, 0, 9, 1, 2, 3});

at::Tensor rows(const Numbers& numbers) { return at::tensor(numbers, at::kLong).view({-1, 4}); }

class Tokens : public FolderTest {
 protected:
  std::string put(const std::string& name, const std::string& bytes) const {
    return write_bytes(folder_ / name, bytes).string();
  }
  // With a note beside it.
  std::string noted(const std::string& name, const std::string& bytes, const std::string& note = kNote) const {
    put(name + ".json", note);
    return put(name, bytes);
  }

  static std::shared_ptr<Dataset> open(Settings settings) {
    settings.emplace_back("context", "4");
    return started_dataset(TOKENS_PLUGIN, settings);
  }
  static std::string problem(const Settings& settings) {
    return error_of([&] { open(settings); });
  }
};

TEST_F(Tokens, WindowsFollowOneAnotherAndEndWithTheirFile) {
  const auto one = noted("a.bin", counting<uint16_t>(10)), two = noted("b.bin", counting<uint16_t>(10, 50));
  const auto data = open({{"train", "[" + one + ", " + two + "]"}, {"val", two}, {"test", "[]"}});
  EXPECT_EQ(data->size(Split::kTrain), 4);
  EXPECT_EQ(data->size(Split::kVal), 2);
  EXPECT_EQ(data->size(Split::kTest), 0);
  EXPECT_EQ(data->spec().classes, 100);
  const auto batch = data->get(Split::kTrain, Numbers{3, 1});
  EXPECT_TRUE(batch.input.equal(rows({54, 55, 56, 57, 4, 5, 6, 7})));
  EXPECT_TRUE(batch.target.equal(batch.input + 1));
}

TEST_F(Tokens, AreReadFromLlmcsAndNanoGptsFiles) {
  std::vector<int32_t> header(256);
  header[0] = 20240801, header[1] = 7, header[2] = 9;
  const auto llmc = put("llmc.bin", bytes_of(header) + counting<uint32_t>(9)),
             raw = put("raw.bin", counting<uint16_t>(9));
  for (const Settings& settings :
       {Settings{{"train", llmc}, {"vocabulary", "100"}}, {{"train", raw}, {"dtype", "uint16"}, {"vocabulary", "100"}}})
    EXPECT_TRUE(open(settings)->get(Split::kTrain, Numbers{1}).target.equal(rows({5, 6, 7, 8})));
  EXPECT_TRUE(says(problem({{"train", raw}, {"vocabulary", "100"}}), "raw.bin ... dataset.dtype"));
  EXPECT_TRUE(says(problem({{"train", raw}, {"dtype", "uint16"}}), "dataset.vocabulary"));
}

TEST_F(Tokens, DocumentsInAWindowAreKeptApartAndPredictNoOther) {
  const auto file =
      noted("a.bin", kDocuments, R"({"dtype": "uint16", "tokens": 10, "vocabulary": 100, "separator": 0})");
  const auto data = open({{"train", file}, {"documents", "true"}, {"attention_mask", "true"}});
  EXPECT_EQ(data->spec().extras.at("attention_mask"), (std::vector<int64_t>{1, 4, 4}));
  EXPECT_THAT(data->spec().masks, ElementsAre("document_ids", "attention_mask"));
  const auto batch = first(*data, Split::kTrain, 2);
  EXPECT_TRUE(batch.input.equal(rows({5, 6, 0, 7, 8, 0, 9, 1})));
  EXPECT_TRUE(batch.target.equal(rows({6, 0, -100, 8, 0, -100, 1, 2})));
  EXPECT_TRUE(batch.extra("position_ids").equal(rows({0, 1, 2, 0, 0, 1, 0, 1})));
  EXPECT_TRUE(batch.extra("document_ids").equal(rows({0, 0, 0, 1, 0, 0, 1, 1})));
  const auto documents = batch.extra("document_ids");
  const auto own = documents.unsqueeze(2).eq(documents.unsqueeze(1)).tril().unsqueeze(1);
  EXPECT_TRUE(batch.extra("attention_mask").equal(own));
  EXPECT_THAT(data->account().notes, ElementsAre("2 of 8 targets do not count: they begin another document than the "
                                                 "token before them"));
  const auto plain = open({{"train", file}});
  EXPECT_NE(plain->account().digest, data->account().digest);
  EXPECT_TRUE(first(*plain, Split::kTrain, 1).extras.empty());
  EXPECT_THAT(plain->account().notes, ElementsAre());

  const auto begun = open({{"train", file}, {"documents", "true"}, {"separator", "0"}, {"separator_at", "start"}});
  const auto other = first(*begun, Split::kTrain, 2);
  EXPECT_TRUE(other.target.equal(rows({6, -100, 7, 8, -100, 9, 1, 2})));
  EXPECT_TRUE(other.extra("position_ids").equal(rows({0, 1, 0, 1, 0, 0, 1, 2})));
  EXPECT_TRUE(other.extra("document_ids").equal(rows({0, 0, 1, 1, 0, 1, 1, 1})));
  EXPECT_FALSE(other.extras.contains("attention_mask"));
}

TEST_F(Tokens, DocumentsWithoutASeparatorAreRefused) {
  const auto train = noted("a.bin", kDocuments);
  const auto refused = [&](Settings settings) {
    settings.insert(settings.begin(), {{"train", train}, {"documents", "true"}});
    return problem(settings);
  };
  expect_refused<Settings>(
      refused,
      {{{}, "a.bin ... set dataset.separator"},
       {{{"separator", "100"}}, "dataset.separator is 100 ... a.bin ends before it, at 100"},
       {{{"separator", "50"}}, "a.bin: no token is the separator 50 ... dataset.documents=false"},
       {{{"separator", "0"}, {"val", noted("v.bin", counting<uint16_t>(10, 1))}}, "v.bin: no token is the separator 0"},
       {{{"train", noted("b.bin", kDocuments, R"({"dtype": "uint16", "vocabulary": 100, "separator": 100})")}},
        "b.bin.json: separator is 100, expected a token below 100"}});
}

TEST_F(Tokens, WhatDoesNotFitIsNamed) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const auto ten = counting<uint16_t>(10);
  const auto of = [](const std::string& vocabulary) { return R"({"dtype":"uint16","vocabulary":)" + vocabulary + "}"; };
  expect_refused<Settings>(
      problem,
      {{{{"train", noted("cut.bin", counting<uint16_t>(9))}},
        "cut.bin ... should hold 10 tokens and holds 9: it is cut short"},
       {{{"train", noted("odd.bin", ten + "x")}}, "21 bytes"},
       {{{"train", noted("two.bin", ten)}, {"dtype", "uint32"}}, "two.bin.json says uint16, dataset.dtype uint32"},
       {{{"train", noted("bad.bin", "0123", "[]")}}, "bad.bin.json: not a JSON object"},
       {{{"train", noted("few.bin", counting<uint16_t>(4), of("100"))}}, "it has 4 tokens, expected at least 5"},
       {{{"train", noted("a.bin", ten)}, {"val", noted("other.bin", ten, of("50"))}},
        "other.bin has a vocabulary of 50 ... a.bin one of 100"},
       {{{"train", noted("beyond.bin", counting<uint16_t>(10, 95))}},
        "beyond.bin: token 5 is 100 ... vocabulary of 100"},
       {{{"train", noted("deep.bin", ten, R"({"dtype": "uint16", "tokens": )" + std::string(200'000, '['))}},
        "deep.bin.json ... nests deeper than"},
       {{{"train", noted("list.bin", ten, R"({"tokens": [[1]]})")}}, "tokens is a list, expected a number"},
       {{{"train", folder_ / "pipe"}, {"dtype", "uint16"}, {"vocabulary", "100"}}, "pipe: is not a file"}});
}

// Before it is believed a file is looked at in places that are spread over it; the rest is when a window is read.
TEST_F(Tokens, ATokenBeyondTheVocabularyIsNamedWhereverItLies) {
  std::vector<uint16_t> tokens(1'000'000, 7);
  tokens[1500] = 100;
  const auto data = open({{"train", put("long.bin", bytes_of(tokens))}, {"dtype", "uint16"}, {"vocabulary", "100"}});
  EXPECT_TRUE(says(error_of([&] { data->get(Split::kTrain, Numbers{1500 / 4}); }), "long.bin: token 1500 is 100"));
}

// Read as uint16, files of a larger width would give two or four times as many tokens, most of them 0.
TEST_F(Tokens, FilesOfAnotherWidthOrKindAreRefused) {
  std::vector<uint32_t> large;
  for (uint32_t i = 0; i < 5000; ++i) large.push_back(i * 40 % 200'000);
  std::string text;
  for (int i = 0; i < 100; ++i) text += "It was a bright cold day in April.\n";
  const auto refused = [&](const std::pair<std::string, std::string>& file) {
    return problem({{"train", put("t.bin", file.first)}, {"dtype", file.second}, {"vocabulary", "200000"}});
  };
  expect_refused<std::pair<std::string, std::string>>(
      refused,
      {{{counting<uint32_t>(90), "uint16"}, "t.bin: read as uint16, every second of its numbers is 0 ... dtype=uint32"},
       {{bytes_of(large), "uint16"}, "it seems to hold uint32"},
       {{counting<int64_t>(90), "uint16"}, "it seems to hold int64"},
       {{counting<int64_t>(90), "uint32"}, "it seems to hold int64"},
       {{counting<uint16_t>(90, 1), "uint32"}, "but a vocabulary of 200000 ends before it"},
       {{text, "uint16"}, "t.bin: is a text, not a file of tokens"},
       {{"\x93NUMPY" + std::string(200, '\1'), "uint16"}, "is a .npy file"},
       {{"\x1f\x8b" + std::string(200, '\1'), "uint16"}, "compressed"}});
  const auto as_it_says =
      noted("odd.bin", counting<uint32_t>(90), R"({"dtype": "uint16", "tokens": 180, "vocabulary": 100})");
  EXPECT_EQ(open({{"train", as_it_says}})->size(Split::kTrain), 44);
}

TEST_F(Tokens, WhatIsBehindTheLastWindowIsCounted) {
  const auto data = open({{"train", noted("a.bin", counting<uint16_t>(10))},
                          {"val", noted("b.bin", counting<uint16_t>(9), R"({"dtype":"uint16","vocabulary":100})")}});
  const auto account = data->account();
  EXPECT_EQ(account.unit, "token");
  EXPECT_EQ(account.used, 9 + 9);
  ASSERT_EQ(account.left_alone.size(), 1U);
  EXPECT_EQ(account.left_alone[0].count, 1);
  EXPECT_TRUE(says(account.left_alone[0].examples.at(0), "a.bin"));
  const auto digest = [&](int from) {
    return open({{"train", noted("a.bin", counting<uint16_t>(10, from))}})->account().digest;
  };
  EXPECT_EQ(digest(0), digest(0));
  EXPECT_NE(digest(0), digest(1));
}

}  // namespace
}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
#include "array_files.h"
#include "idx_writer.h"
#include "plugin_under_test.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <numeric>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kVocabulary = 100;

template <class Token>
std::string counting(int count, int from = 0) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<Token>(from));
  return bytes_of(tokens);
}

class Tokens : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& bytes) const {
    write_file(folder_ / name, bytes);
    return (folder_ / name).string();
  }
  std::string noted(const std::string& name, const std::string& bytes, const std::string& note) const {
    put(name + ".json", note);
    return put(name, bytes);
  }

  static std::shared_ptr<Dataset> open(test::Settings settings) {
    settings.emplace_back("context", "4");
    auto data = load_dataset(TOKENS_PLUGIN, settings);
    data->start();
    return data;
  }
  static std::string problem(const test::Settings& settings) {
    return message_of<UserError>([&] { open(settings); });
  }

  const std::string note_ = R"({"dtype": "uint16", "tokens": 10, "vocabulary": 100})";
  TestFolder folder_;
};

TEST_F(Tokens, WindowsFollowOneAnotherAndEndWithTheirFile) {
  const auto one = noted("a.bin", counting<uint16_t>(10), note_);
  const auto two = noted("b.bin", counting<uint16_t>(10, 50), note_);
  auto files = Value::list();
  for (const auto& file : {one, two}) files.items().push_back(Value::scalar(file));
  auto map = Value::map();
  map.set("train", files);
  map.set("val", Value::scalar(two));
  map.set("context", Value::scalar("4"));
  const auto data = load_dataset(TOKENS_PLUGIN, Options(std::move(map), "dataset"));
  data->start();
  EXPECT_EQ(data->size(Split::kTrain), 4);
  EXPECT_EQ(data->size(Split::kVal), 2);
  EXPECT_EQ(data->size(Split::kTest), 0);
  EXPECT_EQ(data->spec().classes, kVocabulary);
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{3, 1});
  EXPECT_TRUE(batch.input.equal(at::tensor({54, 55, 56, 57, 4, 5, 6, 7}, at::kLong).view({2, 4})));
  EXPECT_TRUE(batch.target.equal(batch.input + 1));
}

TEST_F(Tokens, AreReadFromLlmcsAndNanoGptsFiles) {
  std::vector<int32_t> header(256);
  header[0] = 20240801, header[1] = 7, header[2] = 9;
  const auto llmc = open({{"train", put("llmc.bin", bytes_of(header) + counting<uint32_t>(9))}, {"vocabulary", "100"}});
  EXPECT_EQ(llmc->get(Split::kTrain, std::vector<int64_t>{1}).target.sum().item<int64_t>(), 5 + 6 + 7 + 8);
  const auto raw = put("raw.bin", counting<uint16_t>(9));
  const auto nano = open({{"train", raw}, {"dtype", "uint16"}, {"vocabulary", "100"}});
  EXPECT_EQ(nano->get(Split::kTrain, std::vector<int64_t>{1}).target.sum().item<int64_t>(), 5 + 6 + 7 + 8);
  EXPECT_THAT(problem({{"train", raw}, {"vocabulary", "100"}}),
              AllOf(HasSubstr("raw.bin"), HasSubstr("dataset.dtype")));
  EXPECT_THAT(problem({{"train", raw}, {"dtype", "uint16"}}), HasSubstr("dataset.vocabulary"));
}

TEST_F(Tokens, TakesNoValidationFilesAsTheirDefaultIsWritten) {
  const auto data = open({{"train", noted("a.bin", counting<uint16_t>(10), note_)}, {"val", "[]"}, {"test", "[]"}});
  EXPECT_EQ(data->size(Split::kVal), 0);
}

const std::string kDocuments = bytes_of(std::vector<uint16_t>{5, 6, 0, 7, 8, 0, 9, 1, 2, 3});

at::Tensor rows(std::vector<int64_t> numbers) { return at::tensor(numbers, at::kLong).view({-1, 4}); }

TEST_F(Tokens, DocumentsInAWindowAreToldApartAndPredictNoOther) {
  const std::string note = R"({"dtype": "uint16", "tokens": 10, "vocabulary": 100, "separator": 0})";
  const auto file = noted("a.bin", kDocuments, note);
  const auto data = open({{"train", file}, {"documents", "true"}, {"attention_mask", "true"}});
  EXPECT_EQ(data->spec().extras.at("attention_mask"), (std::vector<int64_t>{1, 4, 4}));
  EXPECT_THAT(data->spec().masks, ElementsAre("document_ids", "attention_mask"));
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{0, 1});
  EXPECT_TRUE(batch.input.equal(rows({5, 6, 0, 7, 8, 0, 9, 1})));
  EXPECT_TRUE(batch.target.equal(rows({6, 0, -100, 8, 0, -100, 1, 2})));
  EXPECT_TRUE(batch.extra("position_ids").equal(rows({0, 1, 2, 0, 0, 1, 0, 1})));
  EXPECT_TRUE(batch.extra("document_ids").equal(rows({0, 0, 0, 1, 0, 0, 1, 1})));
  const auto documents = batch.extra("document_ids");
  EXPECT_TRUE(
      batch.extra("attention_mask").equal(documents.unsqueeze(2).eq(documents.unsqueeze(1)).tril().unsqueeze(1)));
  EXPECT_THAT(data->account().notes, ElementsAre("2 of 8 targets do not count: they begin another document than the "
                                                 "token before them"));
  const auto plain = open({{"train", file}});
  EXPECT_NE(plain->account().digest, data->account().digest);
  EXPECT_TRUE(plain->get(Split::kTrain, std::vector<int64_t>{0}).extras.empty());
  EXPECT_THAT(plain->account().notes, ElementsAre());
}

TEST_F(Tokens, ASeparatorMayBeginItsDocument) {
  const auto data = open({{"train", noted("a.bin", kDocuments, note_)},
                          {"documents", "true"},
                          {"separator", "0"},
                          {"separator_at", "start"}});
  const auto batch = data->get(Split::kTrain, std::vector<int64_t>{0, 1});
  EXPECT_TRUE(batch.target.equal(rows({6, -100, 7, 8, -100, 9, 1, 2})));
  EXPECT_TRUE(batch.extra("position_ids").equal(rows({0, 1, 0, 1, 0, 0, 1, 2})));
  EXPECT_TRUE(batch.extra("document_ids").equal(rows({0, 0, 1, 1, 0, 1, 1, 1})));
  EXPECT_FALSE(batch.extras.contains("attention_mask"));
  EXPECT_THAT(data->account().notes, ElementsAre(HasSubstr("2 of 8 targets")));
}

TEST_F(Tokens, DocumentsWithoutASeparatorAreRefused) {
  const auto refused = [&](const std::string& name, const std::string& note, test::Settings settings) {
    settings.emplace_back("train", noted(name, kDocuments, note));
    settings.emplace_back("documents", "true");
    return problem(settings);
  };
  EXPECT_THAT(refused("a.bin", note_, {}), AllOf(HasSubstr("a.bin"), HasSubstr("set dataset.separator")));
  EXPECT_THAT(refused("a.bin", note_, {{"separator", "100"}}),
              AllOf(HasSubstr("dataset.separator is 100"), HasSubstr("a.bin ends before it, at 100")));
  EXPECT_THAT(refused("a.bin", note_, {{"separator", "50"}}),
              AllOf(HasSubstr("a.bin: no token is the separator 50"), HasSubstr("dataset.documents=false")));
  EXPECT_THAT(refused("a.bin", note_, {{"separator", "0"}, {"val", noted("v.bin", counting<uint16_t>(10, 1), note_)}}),
              HasSubstr("v.bin: no token is the separator 0"));
  EXPECT_THAT(refused("a.bin", R"({"dtype": "uint16", "vocabulary": 100, "separator": 100})", {}),
              HasSubstr("a.bin.json: separator is 100, expected a token below 100"));
}

TEST_F(Tokens, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(problem({{"train", noted("cut.bin", counting<uint16_t>(9), note_)}}),
              AllOf(HasSubstr("cut.bin"), HasSubstr("should hold 10 tokens and holds 9: it is cut short")));
  EXPECT_THAT(problem({{"train", noted("odd.bin", counting<uint16_t>(10) + "x", note_)}}), HasSubstr("21 bytes"));
  EXPECT_THAT(problem({{"train", noted("two.bin", counting<uint16_t>(10), note_)}, {"dtype", "uint32"}}),
              HasSubstr("two.bin.json says uint16, dataset.dtype uint32"));
  EXPECT_THAT(problem({{"train", noted("bad.bin", "0123", "[]")}}), HasSubstr("bad.bin.json: not a JSON object"));
  EXPECT_THAT(problem({{"train", noted("few.bin", counting<uint16_t>(4), R"({"dtype":"uint16","vocabulary":100})")}}),
              HasSubstr("it has 4 tokens, expected at least 5"));
  const auto other = noted("other.bin", counting<uint16_t>(10), R"({"dtype":"uint16","vocabulary":50})");
  EXPECT_THAT(problem({{"train", noted("a.bin", counting<uint16_t>(10), note_)}, {"val", other}}),
              AllOf(HasSubstr("other.bin has a vocabulary of 50"), HasSubstr("a.bin one of 100")));
  EXPECT_THAT(problem({{"train", noted("beyond.bin", counting<uint16_t>(10, 95), note_)}}),
              AllOf(HasSubstr("beyond.bin: token 5 is 100"), HasSubstr("vocabulary of 100")));
}

// Before it is believed a file is looked at in places that are spread over it; the rest is when a window is read.
TEST_F(Tokens, ATokenBeyondTheVocabularyIsNamedWhereverItLies) {
  std::vector<uint16_t> tokens(1'000'000, 7);
  tokens[1500] = 100;
  const auto data = open({{"train", put("long.bin", bytes_of(tokens))}, {"dtype", "uint16"}, {"vocabulary", "100"}});
  EXPECT_THAT(message_of<UserError>([&] { data->get(Split::kTrain, std::vector<int64_t>{1500 / 4}); }),
              HasSubstr("long.bin: token 1500 is 100"));
}

// Read as uint16, such files would give two or four times as many tokens, most of them 0.
TEST_F(Tokens, FilesOfAnotherWidthAreRefused) {
  const auto refused = [&](const std::string& bytes, const std::string& dtype,
                           const std::string& vocabulary = "200000") {
    return problem({{"train", put("t.bin", bytes)}, {"dtype", dtype}, {"vocabulary", vocabulary}});
  };
  std::vector<uint32_t> large;
  for (uint32_t i = 0; i < 5000; ++i) large.push_back(i * 40 % 200'000);
  EXPECT_THAT(refused(counting<uint32_t>(90), "uint16"),
              AllOf(HasSubstr("t.bin: read as uint16, every second of its numbers is 0"), HasSubstr("dtype=uint32")));
  EXPECT_THAT(refused(bytes_of(large), "uint16"), HasSubstr("it seems to hold uint32"));
  EXPECT_THAT(refused(counting<int64_t>(90), "uint16"), HasSubstr("it seems to hold int64"));
  EXPECT_THAT(refused(counting<int64_t>(90), "uint32"), HasSubstr("it seems to hold int64"));
  EXPECT_THAT(refused(counting<uint16_t>(90, 1), "uint32"), HasSubstr("but a vocabulary of 200000 ends before it"));
  const std::string told = R"({"dtype": "uint16", "tokens": 180, "vocabulary": 100})";  // they are what they seem
  EXPECT_EQ(open({{"train", noted("told.bin", counting<uint32_t>(90), told)}})->size(Split::kTrain), 44);
}

TEST_F(Tokens, FilesOfAnotherKindAreRefused) {
  const auto refused = [&](const std::string& bytes) {
    return problem({{"train", put("t.bin", bytes)}, {"dtype", "uint16"}, {"vocabulary", "50257"}});
  };
  std::string text;
  for (int i = 0; i < 100; ++i) text += "It was a bright cold day in April.\n";
  EXPECT_THAT(refused(text), HasSubstr("t.bin: is a text, not a file of tokens"));
  EXPECT_THAT(refused("\x93NUMPY" + std::string(200, '\1')), HasSubstr("is a .npy file"));
  EXPECT_THAT(refused("\x1f\x8b" + std::string(200, '\1')), HasSubstr("compressed"));
}

TEST_F(Tokens, APipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(problem({{"train", (folder_ / "pipe").string()}, {"dtype", "uint16"}, {"vocabulary", "100"}}),
              HasSubstr("pipe: is not a file"));
}

TEST_F(Tokens, ANoteThatNestsDeeplyIsRefused) {
  const auto deep = R"({"dtype": "uint16", "vocabulary": 100, "tokens": )" + std::string(200'000, '[');
  EXPECT_THAT(problem({{"train", noted("deep.bin", counting<uint16_t>(10), deep)}}),
              AllOf(HasSubstr("deep.bin.json"), HasSubstr("nests deeper than")));
  EXPECT_THAT(problem({{"train", noted("list.bin", counting<uint16_t>(10), R"({"tokens": [[1]]})")}}),
              HasSubstr("tokens is a list, expected a number"));
}

TEST_F(Tokens, WhatIsBehindTheLastWindowIsCounted) {
  const auto data = open({{"train", noted("a.bin", counting<uint16_t>(10), note_)},
                          {"val", noted("b.bin", counting<uint16_t>(9), R"({"dtype":"uint16","vocabulary":100})")}});
  const auto account = data->account();
  EXPECT_EQ(account.unit, "token");
  EXPECT_EQ(account.used, 9 + 9);
  ASSERT_EQ(account.left_alone.size(), 1U);
  EXPECT_EQ(account.left_alone[0].count, 1);
  EXPECT_THAT(account.left_alone[0].examples, ::testing::ElementsAre(HasSubstr("a.bin")));
  const auto digest = [&](int from) {
    return open({{"train", noted("a.bin", counting<uint16_t>(10, from), note_)}})->account().digest;
  };
  EXPECT_EQ(digest(0), digest(0));
  EXPECT_NE(digest(0), digest(1));
}

}  // namespace
}  // namespace ddprun::test

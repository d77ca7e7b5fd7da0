// SPDX-License-Identifier: MIT
#include "checkpoint/training_file.h"

#include "checkpoint/checkpoint_fixture.h"
#include "support/every_dtype.h"

#include <ddprun/error.h>

#include <ATen/Functions.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainingFileTest : public CheckpointTest {
 protected:
  TrainingFile round_trip(const TrainingFile& content) const {
    write_training_file(file("t.pt"), content);
    return read_training_file(file("t.pt"));
  }

  std::string problem_of(const std::string& bytes) const {
    write_bytes(file("bad.pt"), bytes);
    const auto problem = user_error_of([&] { read_training_file(file("bad.pt")); });
    EXPECT_THAT(problem, HasSubstr("bad.pt"));
    EXPECT_EQ(problem.find('\n'), std::string::npos) << problem;
    return problem;
  }

  // The same of a file with this pickle; "a crash" where reading it ends the process.
  std::string problem_of_pickle(const std::string& pickle) const {
    caffe2::serialize::PyTorchStreamWriter archive(file("bad.pt").string());
    archive.writeRecord("data.pkl", pickle.data(), pickle.size(), /*compress=*/true);
    archive.writeEndOfFile();
    const auto read = [&] { return user_error_of([&] { read_training_file(file("bad.pt")); }); };
    return status_of_child([&] { read(); }) == 0 ? read() : "a crash";
  }
};

TEST_F(TrainingFileTest, KeepsEveryDtypeAndShape) {
  const auto tensors = tensors_of_every_dtype();
  EXPECT_TRUE(same(tensors, round_trip({.tensors = {{"optimizer", tensors}}}).tensors.at("optimizer")));
}

TEST_F(TrainingFileTest, KeepsSeveralGroupsAndTexts) {
  const TrainingFile content{
      .tensors = {{"optimizer", {{"x", at::ones({2})}}}, {"empty", {}}},
      .texts = {
          {"progress", R"({"epoch": 3, "name": "\u00e4"})"}, {"nothing", ""}, {"long", std::string(100000, 'y')}}};
  const auto back = round_trip(content);
  EXPECT_EQ(back.texts, content.texts);
  EXPECT_EQ(back.tensors.size(), 2U);
  EXPECT_TRUE(same(content.tensors.at("optimizer"), back.tensors.at("optimizer")));
}

TEST_F(TrainingFileTest, KeepsChannelsLast) {
  const auto tensor = at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto back = round_trip({.tensors = {{"o", {{"m", tensor}}}}}).tensors.at("o").at("m");
  EXPECT_TRUE(same(tensor, back));
  EXPECT_EQ(tensor.strides(), back.strides());
}

TEST_F(TrainingFileTest, WritesAViewWithoutItsWholeStorage) {
  const auto base = at::rand({1000000});
  const TensorDict views = {{"slice", base.slice(0, 10, 12)},
                            {"every_third", base.slice(0, 0, 30, 3)},
                            {"expanded", base.slice(0, 5, 6).expand({4})},
                            {"again", base.slice(0, 10, 12)}};
  EXPECT_TRUE(same(views, round_trip({.tensors = {{"o", views}}}).tensors.at("o")));
  EXPECT_LT(std::filesystem::file_size(file("t.pt")), 10000U);
}

TEST_F(TrainingFileTest, KeepsTwoNamesOfOneTensor) {
  const auto tensor = at::rand({20});
  const TensorDict tied = {{"a", tensor}, {"b", tensor}, {"c", tensor.view({4, 5})}};
  EXPECT_TRUE(same(tied, round_trip({.tensors = {{"o", tied}}}).tensors.at("o")));
}

TEST_F(TrainingFileTest, ReturnsTheDigestOfWhatItWrote) {
  const auto digest = write_training_file(file("t"), {.tensors = {{"o", {{"x", at::ones({99})}}}}});
  EXPECT_EQ(digest, digest_of(file("t")));
}

TEST_F(TrainingFileTest, TheSameContentGivesTheSameBytes) {
  const TrainingFile content{.tensors = {{"o", {{"x", at::ones({9})}, {"y", at::zeros({9})}}}}, .texts = {{"t", "u"}}};
  EXPECT_EQ(write_training_file(file("a"), content), write_training_file(file("b"), content));
}

TEST_F(TrainingFileTest, RefusesWhatItCannotHold) {
  const auto write = [&](const at::Tensor& tensor) {
    write_training_file(file("t"), {.tensors = {{"o", {{"x", tensor}}}}});
  };
  EXPECT_THROW(write(at::Tensor()), std::invalid_argument);
  EXPECT_THROW(write(at::eye(3).to_sparse()), std::invalid_argument);
  EXPECT_THROW(write_training_file(file("t"), {.tensors = {{"x", {}}}, .texts = {{"x", ""}}}), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(file("t")));
}

TEST_F(TrainingFileTest, SaysWhatIsNoFileOfOurs) {
  EXPECT_THAT(user_error_of([&] { read_training_file(file("missing.pt")); }), HasSubstr("No such file"));
  EXPECT_THAT(user_error_of([&] { read_training_file(folder()); }), HasSubstr("Is a directory"));
  problem_of("");
  problem_of("just a text");
  problem_of(std::string(100000, '\0'));
}

TEST_F(TrainingFileTest, RefusesFilesThatNameTypes) {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("x", at::ones({1}));
  const auto tagged = torch::jit::pickle_save(dict);  // torch.load(weights_only=True) refuses it too
  EXPECT_THAT(problem_of({tagged.begin(), tagged.end()}), HasSubstr("type"));
}

TEST_F(TrainingFileTest, RefusesPicklesThatNestDeeply) {
  const std::string begin = "\x80\x02";
  EXPECT_THAT(problem_of_pickle(begin + ")" + std::string(400'000, '\x85') + "."), HasSubstr("deeper than 8 levels"));
  EXPECT_THAT(problem_of_pickle(begin + "]" + std::string(400'000, ']') + std::string(400'000, 'a') + "."),
              HasSubstr("deeper than 8 levels"));
  const std::string from_outside_in("]q\0]q\1h\0a.", 10);
  EXPECT_THAT(problem_of_pickle(begin + from_outside_in), HasSubstr("damaged"));
}

TEST_F(TrainingFileTest, RefusesPicklesThatClaimMoreThanTheyHold) {
  EXPECT_THAT(problem_of_pickle("\x80\x02Nr\xff\xff\xff\xff."), HasSubstr("damaged"));  // room for 4 billion values
  EXPECT_THAT(problem_of_pickle("\x80\x02X\xff\xff\xff\xff."), HasSubstr("ends early"));
  EXPECT_THAT(problem_of_pickle(std::string(kLargestPickle + 1, 'N')), HasSubstr("larger than 100 MB"));
}

TEST_F(TrainingFileTest, RefusesEveryTruncation) {
  write_training_file(file("t"), {.tensors = {{"o", sample_checkpoint(3).optimizer}}, .texts = {{"progress", "{}"}}});
  const auto bytes = read_bytes(file("t"));
  for (size_t size = 0; size < bytes.size(); size += 16) problem_of(bytes.substr(0, size));
  problem_of(bytes.substr(0, bytes.size() - 1));
}

// In a child, so that a crash of LibTorch's reader is a failure of this test and no more.
TEST_F(TrainingFileTest, NeverCrashesOnAFlippedBit) {
  write_training_file(file("t"), {.tensors = {{"o", sample_checkpoint(3).optimizer}}, .texts = {{"progress", "{}"}}});
  const auto bytes = read_bytes(file("t"));
  const int status = status_of_child([&] {
    for (size_t bit = 0; bit < bytes.size() * 8; bit += 29) {
      auto flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      write_bytes(file("f"), flipped);
      try {
        const auto content = read_training_file(file("f"));
        for (const auto& [name, tensors] : content.tensors) {
          for (const auto& [key, tensor] : tensors) tensor.sum();
        }
      } catch (const UserError&) {
        continue;
      }
    }
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ddprun

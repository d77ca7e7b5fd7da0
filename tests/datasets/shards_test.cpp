// SPDX-License-Identifier: MIT
#include "idx_writer.h"
#include "image_writer.h"
#include "plugin_under_test.h"
#include "shard.h"
#include "tar_writer.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void no_progress(const std::string&, int64_t, int64_t) {}

class Shards : public ::testing::Test {
 protected:
  // Two samples of the classes 1 and 0; the first has something else beside it.
  static std::string two() {
    return tar_member("a/1.jpg", "one") + tar_member("a/1.cls", "1") + tar_member("a/1.txt", "a note") +
           tar_member("2.png", "second") + tar_member("2.cls", "0\n") + kTarEnd;
  }

  images::SampleList list(const std::string& bytes, const std::string& val = "") {
    std::array<images::Shards, 3> splits;
    splits[0] = {write_file(folder_ / "train-000000.tar", bytes)};
    if (!val.empty()) splits[1] = {write_file(folder_ / "val-000000.tar", val)};
    return images::list_shards(splits, no_progress);
  }

  std::string problem(const std::string& bytes, const std::string& val = "") {
    std::filesystem::remove(folder_ / "train-000000.tar.index");
    std::filesystem::remove(folder_ / "val-000000.tar.index");
    return message_of<UserError>([&] { list(bytes, val); });
  }

  static std::string content(const images::Sample& sample) {
    return std::string(sample.picture.shard->text().substr(sample.picture.begin, sample.picture.size));
  }

  TestFolder folder_;
};

TEST_F(Shards, PairsAreSamplesInTheOrderOfTheTar) {
  const auto found = list(two());
  const auto& train = found.of(Split::kTrain);
  ASSERT_EQ(train.size(), 2U);
  EXPECT_EQ(content(train[0]), "one");
  EXPECT_EQ(content(train[1]), "second");
  EXPECT_EQ(train[0].label, 1);
  EXPECT_EQ(train[1].label, 0);
  EXPECT_THAT(train[0].picture.text(), HasSubstr("train-000000.tar: a/1.jpg"));
  EXPECT_THAT(found.class_names, ElementsAre("0", "1"));
}

// Extended headers come before the member's own, so its content begins later.
TEST_F(Shards, LongNamesMoveTheContent) {
  const auto longer = std::string(150, 'k');
  const auto pax = tar_member("pax", "164 path=" + longer + ".jpg\n", 'x');
  const auto found =
      list(pax + tar_member("short.jpg", "content") + tar_member("pax", "164 path=" + longer + ".cls\n", 'x') +
           tar_member("short.cls", "0") + kTarEnd);
  EXPECT_EQ(content(found.of(Split::kTrain)[0]), "content");
}

TEST_F(Shards, TheIndexIsKeptUntilTheShardHasAnotherSize) {
  list(two());
  const auto index = folder_ / "train-000000.tar.index";
  const auto written = std::filesystem::last_write_time(index);
  list(two());
  EXPECT_EQ(std::filesystem::last_write_time(index), written);
  const auto third = tar_member("3.jpg", "third one") + tar_member("3.cls", "0");
  EXPECT_EQ(list(third + two()).of(Split::kTrain).size(), 3U);
  EXPECT_EQ(content(list(third + two()).of(Split::kTrain)[0]), "third one");
  write_file(index, "no index");
  EXPECT_THAT(message_of<UserError>([&] { list(two()); }), HasSubstr("train-000000.tar.index"));
}

TEST_F(Shards, ClassesHaveNamesWhereAListHasThem) {
  write_file(folder_ / "classes.json", R"(["cat", "dog"])");
  EXPECT_THAT(list(two()).class_names, ElementsAre("cat", "dog"));
  write_file(folder_ / "classes.json", R"(["cat", "dog", "emu"])");
  EXPECT_THAT(problem(two()), HasSubstr("the class 2, emu, has no picture in train"));
  write_file(folder_ / "classes.json", R"(["cat"])");
  EXPECT_THAT(problem(two()), AllOf(HasSubstr("a/1.jpg: its class is 1"), HasSubstr("classes.json ends with 0")));
}

TEST_F(Shards, WhatIsWrongIsNamedWithItsShard) {
  const auto whole = two();
  EXPECT_THAT(problem(whole.substr(0, whole.size() - 1024)),
              AllOf(HasSubstr("train-000000.tar"), HasSubstr("cut short")));
  EXPECT_THAT(problem(whole.substr(0, 512 + 100)), HasSubstr("cut short"));
  EXPECT_THAT(problem("\x1f\x8b compressed"), HasSubstr("it is compressed; unpack it"));
  EXPECT_THAT(problem(std::string(2048, 'x')), HasSubstr("train-000000.tar: is not a tar"));
  EXPECT_THAT(problem(kTarEnd), HasSubstr("it has no sample"));
  EXPECT_THAT(problem(tar_member("a.jpg", "x") + kTarEnd), HasSubstr("no a.cls beside it"));
  EXPECT_THAT(problem(tar_member("a.cls", "0") + kTarEnd), HasSubstr("the key a has a class and no picture"));
  EXPECT_THAT(problem(tar_member("a.jpg", "x") + tar_member("a.cls", "cat") + kTarEnd),
              AllOf(HasSubstr("a.cls holds \"cat\""), HasSubstr("the number of a class")));
  EXPECT_THAT(problem(tar_member("a.jpg", "x") + tar_member("a.png", "x") + kTarEnd), HasSubstr("a.png: a second one"));
  const auto one = tar_member("a.jpg", "x") + tar_member("a.cls", "0");
  EXPECT_THAT(problem(one + tar_member("b.jpg", "x") + tar_member("b.cls", "0") + one + kTarEnd),
              HasSubstr("the key a comes twice"));
  EXPECT_THAT(problem(one + kTarEnd, tar_member("v.jpg", "x") + tar_member("v.cls", "4") + kTarEnd),
              AllOf(HasSubstr("val-000000.tar: v.jpg: its class is 4"), HasSubstr("the last of train is 0")));
  EXPECT_THAT(problem(tar_member("a.jpg", "x") + tar_member("a.cls", "1") + kTarEnd),
              HasSubstr("the class 0 has no picture"));
}

TEST_F(Shards, PatternsNameSeveral) {
  for (const auto* name : {"t-000002.tar", "t-000001.tar", "v.tar"}) write_file(folder_ / name, "x");
  const auto names = [&](const std::string& pattern) {
    std::vector<std::string> found;
    for (const auto& file : images::find_shards(folder_ / pattern)) found.push_back(file.filename().string());
    return found;
  };
  EXPECT_THAT(names("t-*.tar"), ElementsAre("t-000001.tar", "t-000002.tar"));
  EXPECT_THAT(names("v.tar"), ElementsAre("v.tar"));
  EXPECT_THAT(names("t-{000009..000011}.tar"), ElementsAre("t-000009.tar", "t-000010.tar", "t-000011.tar"));
  EXPECT_THAT(message_of<UserError>([&] { names("w*.tar"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of<UserError>([&] { names("t-{2..1}.tar"); }), HasSubstr("{FIRST..LAST}"));
}

}  // namespace
}  // namespace ddprun::test

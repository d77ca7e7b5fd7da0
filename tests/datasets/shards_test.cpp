// SPDX-License-Identifier: MIT
#include "idx_writer.h"
#include "image_file.h"
#include "image_writer.h"
#include "plugin_under_test.h"
#include "shard.h"
#include "tar_writer.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace ddprun::test {
namespace {

using images::Compare;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Shards : public ::testing::Test {
 protected:
  // Two samples of the classes 1 and 0; the first has something else beside it.
  static std::string two() {
    return tar_member("a/1.jpg", "one") + tar_member("a/1.cls", "1") + tar_member("a/1.txt", "a note") +
           tar_member("2.png", "second") + tar_member("2.cls", "0\n") + kTarEnd;
  }

  // The classes 0, `second` and 2, in a tar whose size does not depend on it.
  static std::string labelled(const std::string& second) {
    std::string bytes;
    for (const auto& [key, label] :
         std::map<std::string, std::string>{{"a", "0"}, {"b", second}, {"c", "1"}, {"d", "2"}})
      bytes += tar_member(key + ".jpg", "x") + tar_member(key + ".cls", label);
    return bytes + kTarEnd;
  }

  images::SampleList list(const std::string& bytes, const std::string& val = "") {
    write_file(folder_ / "train-000000.tar", bytes);
    if (!val.empty()) write_file(folder_ / "val-000000.tar", val);
    return again();
  }

  // Lists what is there.
  images::SampleList again(Compare compare = Compare::kSome) {
    std::array<images::Shards, 3> splits;
    splits[0] = {folder_ / "train-000000.tar"};
    if (std::filesystem::exists(folder_ / "val-000000.tar")) splits[1] = {folder_ / "val-000000.tar"};
    const auto tell = [this](const std::string& text, int64_t, int64_t) { told_ += text + "\n"; };
    return images::list_shards(splits, tell, compare);
  }

  std::string problem(const std::string& bytes, const std::string& val = "") {
    std::filesystem::remove(folder_ / "train-000000.tar.index");
    std::filesystem::remove(folder_ / "val-000000.tar");
    std::filesystem::remove(folder_ / "val-000000.tar.index");
    return message_of<UserError>([&] { list(bytes, val); });
  }

  static std::string content(const images::Sample& sample) {
    return std::string(sample.picture.shard->text().substr(sample.picture.begin, sample.picture.size));
  }

  TestFolder folder_;
  std::string told_;
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
  again();
  EXPECT_EQ(std::filesystem::last_write_time(index), written);
  const auto third = tar_member("3.jpg", "third one") + tar_member("3.cls", "0");
  EXPECT_EQ(list(third + two()).of(Split::kTrain).size(), 3U);
  EXPECT_EQ(content(list(third + two()).of(Split::kTrain)[0]), "third one");
  write_file(index, "no index");
  EXPECT_THAT(message_of<UserError>([&] { list(two()); }), HasSubstr("train-000000.tar.index"));
}

// A corrected label has the same length, and tars are padded.
TEST_F(Shards, OfAShardWrittenAnewWithTheSameSizeTheNewClassesAreRead) {
  EXPECT_EQ(list(labelled("1")).of(Split::kTrain)[1].label, 1);
  EXPECT_EQ(list(labelled("2")).of(Split::kTrain)[1].label, 2);
  EXPECT_THAT(told_, HasSubstr("train-000000.tar.index is rebuilt: the shard was changed after it"));
}

TEST_F(Shards, NotEvenTheSameTimeMakesAnIndexOfOtherMembersBelieved) {
  list(labelled("1"));
  const auto time = std::filesystem::last_write_time(folder_ / "train-000000.tar");
  const auto rewrite = [&](const std::string& bytes) {
    write_file(folder_ / "train-000000.tar", bytes);
    std::filesystem::last_write_time(folder_ / "train-000000.tar", time);
    return again();
  };
  EXPECT_EQ(rewrite(labelled("0")).of(Split::kTrain)[1].label, 0);
  EXPECT_THAT(told_, HasSubstr("the shard has other members than it had"));
  const auto renamed = tar_member("z.jpg", "x") + tar_member("z.cls", "0") + labelled("0").substr(4 * 512);
  EXPECT_THAT(rewrite(renamed).of(Split::kTrain)[0].picture.text(), HasSubstr("z.jpg"));
}

// An index is believed by a spread sample of its members; the rest is found out when a picture is read, or before a
// run.
TEST_F(Shards, WhatTheSampleOfMembersMissesIsFoundOutBeforeARunAndWhenAPictureIsRead) {
  const auto many = [](int changed) {
    std::string bytes;
    for (int i = 0; i < 1000; ++i)
      bytes += tar_member(std::to_string(i) + ".jpg", "x") +
               tar_member(std::to_string(i) + ".cls", i == changed || i % 2 != 0 ? "1" : "0");
    return bytes + kTarEnd;
  };
  list(many(-1));
  const auto time = std::filesystem::last_write_time(folder_ / "train-000000.tar");
  write_file(folder_ / "train-000000.tar", many(4));
  std::filesystem::last_write_time(folder_ / "train-000000.tar", time);
  const auto found = again();
  EXPECT_EQ(found.of(Split::kTrain)[4].label, 0);
  EXPECT_THAT(message_of<UserError>([&] { images::check_file(found.of(Split::kTrain)[4].picture); }),
              AllOf(HasSubstr("train-000000.tar: 4.jpg"),
                    HasSubstr("train-000000.tar.index, was made of other members"), HasSubstr("delete the index")));
  EXPECT_EQ(again(Compare::kAll).of(Split::kTrain)[4].label, 1);
}

TEST_F(Shards, AnIndexThatLacksATensorIsRefused) {
  list(two());
  const auto index = folder_ / "train-000000.tar.index";
  auto tensors = read_safetensors(index);
  tensors.erase("check");
  write_safetensors(index, tensors);
  EXPECT_THAT(message_of<UserError>([&] { again(); }),
              HasSubstr("no int64 tensor \"check\" of one dimension; delete it"));
}

// webdataset counts endings in any case.
TEST_F(Shards, EndingsCountInAnyCase) {
  const auto found = list(tar_member("a.JPG", "x") + tar_member("a.CLS", "0") + tar_member("b.jfif", "y") +
                          tar_member("b.cls", "0") + kTarEnd);
  EXPECT_EQ(found.of(Split::kTrain).size(), 2U);
}

TEST_F(Shards, BlanksAroundAClassDoNotCount) {
  const auto found = list(tar_member("a.jpg", "x") + tar_member("a.cls", "\n 0 \r\n") + kTarEnd);
  EXPECT_EQ(found.of(Split::kTrain).at(0).label, 0);
}

TEST_F(Shards, JoinedTarsAreReadToTheLast) {
  const auto joined = two() + tar_member("3.jpg", "third") + tar_member("3.cls", "0") + kTarEnd;
  const auto found = list(joined);
  ASSERT_EQ(found.of(Split::kTrain).size(), 3U);
  EXPECT_EQ(content(found.of(Split::kTrain)[2]), "third");
  EXPECT_THAT(problem(two() + "behind the end"), HasSubstr("something behind its end"));
}

TEST_F(Shards, AHardLinkIsWhatItPointsTo) {
  const auto found = list(two() + tar_member("3.jpg", "", '1', -1, "a/1.jpg") + tar_member("3.cls", "1") + kTarEnd);
  ASSERT_EQ(found.of(Split::kTrain).size(), 3U);
  EXPECT_EQ(content(found.of(Split::kTrain)[2]), "one");
  EXPECT_EQ(found.of(Split::kTrain)[2].label, 1);
}

TEST_F(Shards, WhatIsPartOfNoSampleIsCountedByItsReason) {
  const auto bytes = tar_member("folder/", "", '5') + tar_member("._a.jpg", "x") + tar_member("README", "x") +
                     tar_member("a.jpg", "x") + tar_member("a.cls", "0") + tar_member("a.json", "{}") +
                     tar_member("a.seg.png", "mask") + tar_member("b.json", "{}") + tar_member("c.txt", "", '2') +
                     kTarEnd;
  list(bytes);
  const auto found = again();  // from the index
  std::map<std::string, int64_t> counts;
  for (const auto& one : found.account.left_alone) counts[one.reason] = one.count;
  EXPECT_EQ(counts, (std::map<std::string, int64_t>{{"hidden", 1},
                                                    {"without an ending", 1},
                                                    {"ending in .json", 2},
                                                    {"ending in .seg.png", 1},
                                                    {"links, devices and pipes", 1}}));
}

TEST_F(Shards, WhatIsUsedAndWhatIsLeftAloneAreAllMembers) {
  write_png(folder_ / "p.png", 4, 4, 1, 2, 3);
  const auto png = read_file(folder_ / "p.png");
  const auto digest_and_sum = [&](const std::string& label) {
    const auto bytes = tar_member("a.png", png) + tar_member("a.cls", "0") + tar_member("b.png", png) +
                       tar_member("b.cls", label) + tar_member("c.png", "no picture") + tar_member("c.cls", "0") +
                       tar_member("a.txt", "x") + tar_member("folder/", "", '5') + tar_member("README", "x") + kTarEnd;
    const auto tar = write_file(folder_ / "t.tar", bytes).string();
    const auto data = load_dataset(SHARDS_PLUGIN, {{"train", tar}, {"size", "4"}, {"skip_unreadable", "true"}});
    data->start();
    const auto account = data->account();
    int64_t all = account.used;
    for (const auto& one : account.left_alone) all += one.count;
    return std::pair(account.digest, all);
  };
  EXPECT_EQ(digest_and_sum("1").second, 8);
  EXPECT_EQ(digest_and_sum("1").first, digest_and_sum("1").first);
  EXPECT_NE(digest_and_sum("1").first, digest_and_sum("0").first);
}

TEST_F(Shards, AMemberThatCannotBeReadOrPairedIsNamed) {
  const auto pair = tar_member("a.jpg", "x") + tar_member("a.cls", "0");
  EXPECT_THAT(problem(pair + tar_member("IMG.1.jpg", "x") + tar_member("IMG.1.cls", "0") + kTarEnd),
              AllOf(HasSubstr("IMG.1.cls: its key is IMG"), HasSubstr("without a dot in the key")));
  EXPECT_THAT(problem(pair + tar_member("IMG.1.jpg", "x") + kTarEnd), HasSubstr("IMG.1.jpg: its key is IMG"));
  EXPECT_THAT(problem(pair + tar_member("b.jpg", "", '2') + kTarEnd), HasSubstr("b.jpg is a link"));
  EXPECT_THAT(problem(pair + tar_member("b.jpg", "", '1', -1, "c.jpg") + kTarEnd),
              HasSubstr("b.jpg is a hard link to c.jpg, which does not come before it"));
  EXPECT_THAT(problem(tar_member("b.bmp", "x") + tar_member("b.cls", "0") + kTarEnd),
              AllOf(HasSubstr("the key b has a class and no picture"), HasSubstr(".bmp")));
  const auto sparse =
      tar_member("pax",
                 "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n30 GNU.sparse.name=real.jpg\n"
                 "27 GNU.sparse.realsize=600\n",
                 'x') +
      tar_member("GNUSparseFile.0/real.jpg", "1\n0\n600\n" + std::string(503, '\0') + std::string(600, 'x'));
  EXPECT_THAT(problem(sparse + tar_member("real.cls", "0") + kTarEnd),
              AllOf(HasSubstr("real.jpg does not lie in one piece"), HasSubstr("sparse")));
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
  for (const auto* start : {"\x1f\x8b", "BZh9",
                            "\xfd"
                            "7zXZ",
                            "\x28\xb5\x2f\xfd"})
    EXPECT_THAT(problem(std::string(start) + " compressed"), HasSubstr("it is compressed; unpack it"));
  EXPECT_THAT(problem(std::string(2048, 'x')), HasSubstr("train-000000.tar: is not a tar"));
  EXPECT_THAT(problem(kTarEnd), HasSubstr("it has no sample"));
  EXPECT_THAT(problem(tar_member("a.jpg", "x") + kTarEnd),
              HasSubstr("no a.cls beside it; the members of a key lie one after"));
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
  EXPECT_THAT(names("t{1..2}-{0..1}.tar"), ElementsAre("t1-0.tar", "t1-1.tar", "t2-0.tar", "t2-1.tar"));
  EXPECT_THAT(message_of<UserError>([&] { names("t{0..99999999}.tar"); }), HasSubstr("no more than"));
}

TEST_F(Shards, WhatIsThereByItsNameIsNoPattern) {
  for (const auto* folder : {"v[2]", "v{a}"}) {
    std::filesystem::create_directory(folder_ / folder);
    for (const auto* name : {"t-1.tar", "t[1].tar", "t{1}.tar"}) write_file(folder_.path() / folder / name, "x");
    for (const auto* name : {"t[1].tar", "t{1}.tar"})
      EXPECT_THAT(images::find_shards(folder_.path() / folder / name), ElementsAre(folder_.path() / folder / name));
    EXPECT_THAT(images::find_shards(folder_.path() / folder / "t-*.tar"),
                ElementsAre(folder_.path() / folder / "t-1.tar"));
    EXPECT_THAT(images::find_shards(folder_.path() / folder / "t-{1..1}.tar"),
                ElementsAre(folder_.path() / folder / "t-1.tar"));
  }
}

}  // namespace
}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
#include "picture_folder.h"
#include "shard.h"
#include "support/written_files.h"

#include <ddprun/safetensors.h>

#include <gmock/gmock.h>

namespace ddprun::test {
namespace {

using images::Compare;
using ::testing::ElementsAre;

// A picture and its class.
std::string sample(const std::string& key, const std::string& label, const std::string& content = "x",
                   const std::string& ending = ".jpg") {
  return tar_member(key + ending, content) + tar_member(key + ".cls", label);
}

// Two samples of the classes 1 and 0; the first has something else beside it.
const std::string kTwo =
    sample("a/1", "1", "one") + tar_member("a/1.txt", "a note") + sample("2", "0\n", "second", ".png") + kTarEnd;

// The classes 0, `second`, 1 and 2, in a tar whose size does not depend on it.
std::string labelled(const std::string& second) {
  return sample("a", "0") + sample("b", second) + sample("c", "1") + sample("d", "2") + kTarEnd;
}

class Shards : public FolderTest {
 protected:
  images::SampleList list(const std::string& bytes) {
    write(train_, bytes);
    return again();
  }

  // Lists another content of the same time.
  images::SampleList rewrite(const std::string& bytes) {
    const auto time = std::filesystem::last_write_time(train_);
    write(train_, bytes);
    std::filesystem::last_write_time(train_, time);
    return again();
  }

  // Lists what is there.
  images::SampleList again(Compare compare = Compare::kSome) {
    std::array<images::Shards, 3> splits;
    splits[0] = {train_};
    if (std::filesystem::exists(val_)) splits[1] = {val_};
    return images::list_shards(
        splits, [this](const std::string& text, int64_t, int64_t) { said_ += text + "\n"; }, compare);
  }

  std::string problem(const std::string& bytes) {
    std::filesystem::remove(index_);
    return error_of([&] { list(bytes); });
  }

  static std::string content(const images::Sample& sample) {
    return std::string(sample.picture.shard->text().substr(sample.picture.begin, sample.picture.size));
  }

  const std::filesystem::path train_ = folder_ / "train-000000.tar", val_ = folder_ / "val-000000.tar",
                              index_ = folder_ / "train-000000.tar.index";
  std::string said_;
};

TEST_F(Shards, PairsAreSamplesInTheOrderOfTheTar) {
  const auto found = list(kTwo);
  const auto& train = found.of(Split::kTrain);
  ASSERT_EQ(train.size(), 2U);
  EXPECT_EQ(content(train[0]), "one");
  EXPECT_EQ(content(train[1]), "second");
  EXPECT_EQ(train[0].label, 1);
  EXPECT_EQ(train[1].label, 0);
  EXPECT_TRUE(says(train[0].picture.text(), "train-000000.tar: a/1.jpg"));
  EXPECT_THAT(found.class_names, ElementsAre("0", "1"));
}

TEST_F(Shards, MembersOfEveryFormAreSamples) {
  const auto longer = std::string(150, 'k');  // extended headers come before the member's own: its content begins later
  const auto pax = [&](const std::string& ending) {
    return tar_member("pax", "164 path=" + longer + ending + "\n", 'x');
  };
  for (const auto& [bytes, last] : std::map<std::string, std::string>{
           {pax(".jpg") + tar_member("short.jpg", "long") + pax(".cls") + tar_member("short.cls", "0"), "long"},
           {tar_member("a.JPG", "x") + tar_member("a.CLS", "0") + sample("b", "0", "odd", ".jfif"), "odd"},
           {sample("a", "\n 0 \r\n", "blank"), "blank"},
           {kTwo + sample("3", "0", "joined"), "joined"},
           {sample("0", "0", "linked") + tar_member("3.jpg", "", '1', -1, "0.jpg") + tar_member("3.cls", "0"),
            "linked"}})
    EXPECT_EQ(content(list(bytes + kTarEnd).of(Split::kTrain).back()), last);
  EXPECT_TRUE(says(problem(kTwo + "behind the end"), "something behind its end"));
}

TEST_F(Shards, TheIndexIsKeptUntilTheShardHasAnotherSize) {
  list(kTwo);
  const auto written = std::filesystem::last_write_time(index_);
  again();
  EXPECT_EQ(std::filesystem::last_write_time(index_), written);
  EXPECT_EQ(list(sample("3", "0", "third one") + kTwo).of(Split::kTrain).size(), 3U);
  EXPECT_EQ(content(again().of(Split::kTrain)[0]), "third one");
  auto tensors = read_safetensors(index_);
  tensors.erase("check");
  write_safetensors(index_, tensors);
  EXPECT_TRUE(says(error_of([&] { again(); }), "no int64 tensor \"check\" of one dimension; delete it"));
  write(index_, "no index");
  EXPECT_TRUE(says(error_of([&] { again(); }), "train-000000.tar.index"));
}

// A corrected label has the same length, and tars are padded.
TEST_F(Shards, OfAShardWrittenAnewWithTheSameSizeTheNewMembersAreRead) {
  EXPECT_EQ(list(labelled("1")).of(Split::kTrain)[1].label, 1);
  EXPECT_EQ(list(labelled("2")).of(Split::kTrain)[1].label, 2);
  EXPECT_TRUE(says(said_, "train-000000.tar.index is rebuilt: the shard was changed after it"));
  EXPECT_EQ(rewrite(labelled("0")).of(Split::kTrain)[1].label, 0) << "even of the same time";
  EXPECT_TRUE(says(said_, "the shard has other members than it had"));
  const auto renamed = sample("z", "0") + labelled("0").substr(4 * 512);
  EXPECT_TRUE(says(rewrite(renamed).of(Split::kTrain)[0].picture.text(), "z.jpg"));
}

// An index is believed by a spread sample of its members; the rest is found out when a picture is read, or before a
// run.
TEST_F(Shards, WhatTheSampleOfMembersMissesIsFoundOutBeforeARunAndWhenAPictureIsRead) {
  const auto many = [](int changed) {
    std::string bytes;
    for (int i = 0; i < 1000; ++i) bytes += sample(std::to_string(i), i == changed || i % 2 != 0 ? "1" : "0");
    return bytes + kTarEnd;
  };
  list(many(-1));
  const auto found = rewrite(many(4));
  EXPECT_EQ(found.of(Split::kTrain)[4].label, 0);
  EXPECT_TRUE(
      says(error_of([&] { images::check_file(found.of(Split::kTrain)[4].picture); }),
           "train-000000.tar: 4.jpg ... train-000000.tar.index, was made of other members ... delete the index"));
  EXPECT_EQ(again(Compare::kAll).of(Split::kTrain)[4].label, 1);
}

TEST_F(Shards, WhatIsPartOfNoSampleIsCountedByItsReason) {
  list(tar_member("folder/", "", '5') + tar_member("._a.jpg", "x") + tar_member("README", "x") + sample("a", "0") +
       tar_member("a.json", "{}") + tar_member("a.seg.png", "mask") + tar_member("b.json", "{}") +
       tar_member("c.txt", "", '2') + kTarEnd);
  std::map<std::string, int64_t> counts;
  for (const auto& one : again().account.left_alone) counts[one.reason] = one.count;  // from the index
  EXPECT_EQ(counts, (std::map<std::string, int64_t>{{"hidden", 1},
                                                    {"without an ending", 1},
                                                    {"ending in .json", 2},
                                                    {"ending in .seg.png", 1},
                                                    {"links, devices and pipes", 1}}));
}

TEST_F(Shards, WhatIsUsedAndWhatIsLeftAloneAreAllMembers) {
  write_png(folder_ / "p.png", 4, 4, 1, 2, 3);
  const auto png = read(folder_ / "p.png");
  const auto account = [&](const std::string& label) {
    write(folder_ / "t.tar", sample("a", "0", png, ".png") + sample("b", label, png, ".png") +
                                 sample("c", "0", "no picture", ".png") + tar_member("a.txt", "x") +
                                 tar_member("folder/", "", '5') + tar_member("README", "x") + kTarEnd);
    return started_dataset(SHARDS_PLUGIN, {{"train", folder_ / "t.tar"}, {"size", "4"}, {"skip_unreadable", "true"}})
        ->account();
  };
  EXPECT_EQ(all_of(account("1")), 8);
  EXPECT_EQ(account("1").digest, account("1").digest);
  EXPECT_NE(account("1").digest, account("0").digest);
}

TEST_F(Shards, WhatIsWrongIsNamedWithItsShardAndMember) {
  const auto pair = sample("a", "0"), image = tar_member("a.jpg", "x");
  const auto sparse =
      tar_member("pax",
                 "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n30 GNU.sparse.name=real.jpg\n"
                 "27 GNU.sparse.realsize=600\n",
                 'x') +
      tar_member("GNUSparseFile.0/real.jpg", "1\n0\n600\n" + std::string(503, '\0') + std::string(600, 'x'));
  const std::string packed = "it is compressed; unpack it";
  expect_refused([&](const std::string& bytes) { return problem(bytes); },
                 {{kTwo.substr(0, kTwo.size() - 1024), "train-000000.tar ... cut short"},
                  {kTwo.substr(0, 512 + 100), "cut short"},
                  {"\x1f\x8b compressed", packed},
                  {"BZh9 compressed", packed},
                  {"\xfd"
                   "7zXZ compressed",
                   packed},
                  {"\x28\xb5\x2f\xfd compressed", packed},
                  {std::string(2048, 'x'), "train-000000.tar: is not a tar"},
                  {kTarEnd, "it has no sample"},
                  {image + kTarEnd, "no a.cls beside it; the members of a key lie one after"},
                  {tar_member("a.cls", "0") + kTarEnd, "the key a has a class and no picture"},
                  {sample("a", "cat") + kTarEnd, "a.cls holds \"cat\" ... the number of a class"},
                  {image + tar_member("a.png", "x") + kTarEnd, "a.png: a second one"},
                  {pair + sample("b", "0") + pair + kTarEnd, "the key a comes twice"},
                  {sample("a", "1") + kTarEnd, "the class 0 has no picture"},
                  {pair + sample("IMG.1", "0") + kTarEnd, "its key is IMG ... without a dot in the key"},
                  {pair + tar_member("IMG.1.jpg", "x") + kTarEnd, "IMG.1.jpg: its key is IMG"},
                  {pair + tar_member("b.jpg", "", '2') + kTarEnd, "b.jpg is a link"},
                  {pair + tar_member("b.jpg", "", '1', -1, "c.jpg") + kTarEnd,
                   "b.jpg is a hard link to c.jpg, which does not come before it"},
                  {sample("b", "0", "x", ".bmp") + kTarEnd, "the key b has a class and no picture ... .bmp"},
                  {sparse + tar_member("real.cls", "0") + kTarEnd, "real.jpg does not lie in one piece ... sparse"}});
  write(val_, sample("v", "4") + kTarEnd);
  EXPECT_TRUE(says(problem(pair + kTarEnd), "val-000000.tar: v.jpg: its class is 4 ... the last of train is 0"));
}

TEST_F(Shards, ClassesHaveNamesWhereAListHasThem) {
  const auto classes = folder_ / "classes.json";
  write(classes, R"(["cat", "dog"])");
  EXPECT_THAT(list(kTwo).class_names, ElementsAre("cat", "dog"));
  write(classes, R"(["cat", "dog", "emu"])");
  EXPECT_TRUE(says(problem(kTwo), "the class 2, emu, has no picture in train"));
  write(classes, R"(["cat"])");
  EXPECT_TRUE(says(problem(kTwo), "a/1.jpg: its class is 1 ... classes.json ends with 0"));
}

TEST_F(Shards, PatternsNameSeveralButNotWhatIsThereByItsName) {
  for (const auto& folder : {folder_, folder_ / "v[2]", folder_ / "v{a}"}) {
    for (const auto* name : {"t-000002.tar", "t-000001.tar", "t[1].tar", "t{1}.tar"}) write(folder / name, "x");
    const auto names = [&](const std::string& pattern) {
      std::vector<std::string> found;
      for (const auto& file : images::find_shards(folder / pattern)) found.push_back(file.filename().string());
      return found;
    };
    EXPECT_THAT(names("t-*.tar"), ElementsAre("t-000001.tar", "t-000002.tar"));
    for (const auto* name : {"t-000001.tar", "t[1].tar", "t{1}.tar"}) EXPECT_THAT(names(name), ElementsAre(name));
    EXPECT_THAT(names("t-{000009..000011}.tar"), ElementsAre("t-000009.tar", "t-000010.tar", "t-000011.tar"));
    EXPECT_THAT(names("t{1..2}-{0..1}.tar"), ElementsAre("t1-0.tar", "t1-1.tar", "t2-0.tar", "t2-1.tar"));
    expect_refused(
        [&](const std::string& pattern) { return error_of([&] { names(pattern); }); },
        {{"w*.tar", "no such file"}, {"t-{2..1}.tar", "{FIRST..LAST}"}, {"t{0..99999999}.tar", "no more than"}});
  }
}

}  // namespace
}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
#include <ddprun/found_files.h>

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const FoundFiles kFound{
    .folder = "/data",
    .files = {"/data/X_train.npy", "/data/b.NPY", "/data/val.d/y.npy", "/data/valid/x.npy", "/data/y.csv"}};

TEST(FoundFiles, EndingsCountInAnyCase) {
  EXPECT_EQ(kFound.ending_in({".npy"}).size(), 4);
  EXPECT_EQ(kFound.ending_in({".csv", ".tsv"}), FilePaths{"/data/y.csv"});
  EXPECT_TRUE(kFound.ending_in({".tar"}).empty());
}

TEST(FoundFiles, SplitsAreThoseThatWordsOfNamesAndFoldersSay) {
  for (const auto& [file, split] : std::map<std::string, std::string>{{"X_train.npy", "train"},
                                                                      {"a.npy", "train"},
                                                                      {"validity.npy", "train"},
                                                                      {"Valid/x.npy", "val"},
                                                                      {"shard-test-000.tar", "test"},
                                                                      {"dev/latest.npy", "val"}})
    EXPECT_EQ(kFound.split_of(kFound.folder / file), split) << file;
  EXPECT_EQ(kFound.by_split(kFound.files).at("val").size(), 2);
}

TEST(FoundFiles, AreCountedWithAnExample) {
  EXPECT_EQ(kFound.counted({"/data/valid/x.npy"}, "array"), "1 array, such as valid/x.npy");
  EXPECT_EQ(kFound.counted(kFound.files, "array"), "5 arrays, such as X_train.npy");
}

}  // namespace
}  // namespace ddprun

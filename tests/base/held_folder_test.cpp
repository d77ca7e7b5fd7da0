// SPDX-License-Identifier: MIT
#include "base/run_files.h"
#include "support/temporary_folder.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class HeldFolderTest : public FolderTest {
 protected:
  HeldFolderTest() : run_(folder_ / "run") {
    fs::create_directory(run_);
    std::ofstream(run_ / "config.yaml") << "a: 1\n";
  }

  fs::path run_;
};

TEST_F(HeldFolderTest, IsThereUntilItIsRemoved) {
  const HeldFolder held(run_);
  EXPECT_TRUE(held.is_there());
  fs::remove_all(run_);
  EXPECT_FALSE(held.is_there());
  EXPECT_THROW(held.require(), UserError);
}

TEST_F(HeldFolderTest, IsNotThereWhereItWasMovedAndReplaced) {
  const HeldFolder held(run_);
  fs::rename(run_, folder_ / "away");
  EXPECT_FALSE(held.is_there());
  fs::copy(folder_ / "away", run_);
  EXPECT_FALSE(held.is_there()) << "of the same content, but another";
  EXPECT_TRUE(HeldFolder(run_).is_there());
}

TEST_F(HeldFolderTest, IsNotThereWhereItWasEmptied) {
  const HeldFolder held(run_);
  fs::remove(run_ / "config.yaml");
  EXPECT_FALSE(held.is_there());
  EXPECT_TRUE(HeldFolder(run_).is_there()) << "it had no config";
}

TEST_F(HeldFolderTest, IsTakenThroughALinkThatGoesOn) {
  fs::create_directory_symlink(run_, folder_ / "link");
  const HeldFolder held(folder_ / "link");
  EXPECT_TRUE(held.is_there());
  fs::remove(folder_ / "link");
  EXPECT_FALSE(held.is_there());
}

TEST_F(HeldFolderTest, AnyOtherErrorThanAMissingFileIsNoRemoval) {
  const auto link = folder_ / "link";
  fs::create_directory_symlink(run_, link);
  const HeldFolder held(link);
  fs::remove(link);
  fs::create_symlink(link, link);  // ELOOP stands for what a network file system may say for a moment
  EXPECT_TRUE(held.is_there());
  EXPECT_NO_THROW(held.require());
}

TEST_F(HeldFolderTest, OfNothingIsAnError) { EXPECT_THROW(HeldFolder(folder_ / "none"), UserError); }

}  // namespace
}  // namespace ddprun

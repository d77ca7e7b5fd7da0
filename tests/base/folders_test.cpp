// SPDX-License-Identifier: MIT
// Folders that are held, private, or meant by a mistyped name.
#include "base/nearest_path.h"
#include "base/private_folder.h"
#include "base/program.h"
#include "base/run_files.h"
#include "support/temporary_folder.h"

#include <ddprun/error.h>
#include <ddprun/file_error.h>

#include <unistd.h>

#include <csignal>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class HeldFolderTest : public FolderTest {
 protected:
  HeldFolderTest() { write(run_ / "config.yaml", "a: 1\n"); }

  const fs::path run_ = folder_ / "run";
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

TEST_F(HeldFolderTest, IsTakenThroughALinkThatContinues) {
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

TEST(RunFiles, OneThatCannotBeReadIsNotTakenForAnEmptyOne) {
  EXPECT_THROW(content_of("/proc/self"), FileError);  // reading a folder fails, as that of a broken disk does
  EXPECT_EQ(content_of("/proc/self/missing"), "");
  EXPECT_NE(content_of("/proc/self/stat"), "");
}

TEST(PrivateFolder, ThoseOfKilledProcessesAreRemovedWhenTheNextIsMade) {
  const PrivateFolder place;
  const std::string before = ::testing::TempDir();
  ::setenv("TMPDIR", place.path().c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const PrivateFolder killed;
    ::raise(SIGKILL);
  }
  wait_for(child);
  EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), {}), 2);  // its own lock, and what is left
  const auto strange = place.path() / "ddprun-unlike";
  fs::create_directory(strange);
  const auto foreign = place.path() / "ddprun-remote";
  fs::create_directory(foreign);
  std::ofstream(foreign / "lock") << "another machine";
  const PrivateFolder alive, next;
  std::set<fs::path> left;
  for (const auto& entry : fs::directory_iterator(place.path())) left.insert(entry.path());
  EXPECT_EQ(left, (std::set{place.path() / "lock", strange, foreign, alive.path(), next.path()}));
  ::setenv("TMPDIR", before.c_str(), 1);
}

class NearestPath : public FolderTest {
 protected:
  void SetUp() override {
    for (const auto* file : {"outputs/mnist/latest/config.yaml", "outputs/digits/a.yaml"}) write(folder_ / file, "");
  }
};

TEST_F(NearestPath, CorrectsEachPartThatIsMistyped) {
  EXPECT_EQ(nearest_path(folder_ / "outputs/mnist/lates"), folder_ / "outputs/mnist/latest");
  EXPECT_EQ(nearest_path(folder_ / "output/mnits/latest/config.yaml"), folder_ / "outputs/mnist/latest/config.yaml");
}

TEST_F(NearestPath, IsEmptyWhereThePathExistsOrNothingIsNear) {
  EXPECT_EQ(nearest_path(folder_ / "outputs"), "");
  EXPECT_EQ(nearest_path(folder_ / "outputs/something/else"), "");
  EXPECT_EQ(nearest_path(""), "");
  EXPECT_EQ(did_you_mean(folder_ / "outputs/x"), "");
}

TEST_F(NearestPath, IsAskedForInAHint) {
  EXPECT_EQ(did_you_mean(folder_ / "outptus"), "; did you mean " + (folder_ / "outputs").string() + "?");
}

}  // namespace
}  // namespace ddprun

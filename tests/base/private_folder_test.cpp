// SPDX-License-Identifier: MIT
#include "base/private_folder.h"

#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

TEST(PrivateFolder, ThoseOfKilledProcessesAreRemovedWhenTheNextIsMade) {
  const PrivateFolder place;
  const std::string before = ::testing::TempDir();
  ::setenv("TMPDIR", place.path().c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const PrivateFolder killed;
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
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

}  // namespace
}  // namespace ddprun

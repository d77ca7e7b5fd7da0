// SPDX-License-Identifier: MIT
#include "base/files_below.h"

#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class FilesBelow : public FolderTest {
 protected:
  FilesBelow() {
    write(run_ / "logs/rank_0.log", "a log");
    write(outside_ / "secret", "a secret");
  }

  // Expects that it is refused, by its path and for what it is.
  void expect_refusal(const fs::path& name, const std::string& what) const {
    const auto text = error_of([&] { read_below(run_, name, 1000); });
    EXPECT_TRUE(text.starts_with((run_ / name).string().substr(0, run_.string().size() + 2))) << text;
    EXPECT_TRUE(says(text, what));
  }

  fs::path run_ = folder_ / "run", outside_ = folder_ / "outside";
};

TEST_F(FilesBelow, AreReadAtAnyDepthAndThroughALinkToTheFolderItself) {
  EXPECT_EQ(read_below(run_, "logs/rank_0.log"), "a log");
  fs::create_directory_symlink("run", folder_ / "latest");
  EXPECT_EQ(read_below(folder_ / "latest", "logs/rank_0.log"), "a log");
  EXPECT_EQ(size_below(run_, "logs/rank_0.log"), 5U);
}

TEST_F(FilesBelow, ThatAreMissingAreEmpty) {
  for (const char* name : {"metrics.jsonl", "logs/rank_1.log", "images/1.png"}) {
    EXPECT_FALSE(open_below(run_, name).open());
    EXPECT_EQ(read_below(run_, name), "");
    EXPECT_THROW(size_below(run_, name), UserError);
  }
  EXPECT_EQ(read_below(folder_ / "nowhere", "a"), "");
  EXPECT_EQ(read_below(outside_ / "secret", "a"), "");
}

TEST_F(FilesBelow, AreNotReachedOverLinks) {
  fs::create_symlink(outside_ / "secret", run_ / "absolute");
  fs::create_symlink("../outside/secret", run_ / "relative");
  fs::create_symlink("logs/rank_0.log", run_ / "inside");
  fs::create_symlink("nowhere", run_ / "dangling");
  fs::create_symlink("/dev/zero", run_ / "endless");
  fs::create_directory_symlink(outside_, run_ / "folder");
  for (const char* name : {"absolute", "relative", "inside", "dangling", "endless", "folder/secret"})
    expect_refusal(name, "is a link");
  expect_refusal("../outside/secret", "does not lie in the run's folder");
  EXPECT_THROW(read_below(run_, outside_ / "secret"), UserError);
}

TEST_F(FilesBelow, AreNeitherPipesNorFoldersAndNoneIsWaitedFor) {
  ASSERT_EQ(::mkfifo((run_ / "pipe").c_str(), 0600), 0);
  expect_refusal("pipe", "is a pipe");
  expect_refusal("logs", "is a folder");
  expect_refusal("logs/rank_0.log/deeper", "a folder was expected");
}

TEST_F(FilesBelow, HaveASizeThatTheirReaderExpects) {
  write(run_ / "just", std::string(1000, 'x'));
  EXPECT_EQ(read_below(run_, "just", 1000).size(), 1000U);
  write(run_ / "large", std::string(1001, 'x'));
  expect_refusal("large", "has more than");
}

TEST_F(FilesBelow, ThatMayNotBeReadAreNotTakenForEmpty) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  ::chmod((run_ / "logs/rank_0.log").c_str(), 0);
  expect_refusal("logs/rank_0.log", "cannot be read");
}

}  // namespace
}  // namespace ddprun

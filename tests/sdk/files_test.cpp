// SPDX-License-Identifier: MIT
#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <ddprun/file_error.h>
#include <ddprun/files.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <stdexcept>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Files : public FolderTest {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(Files, ReplacesTheWholeAndLeavesNothingElse) {
  replace_file(folder_ / "f", "a long first text");
  replace_file(folder_ / "f", "second");
  EXPECT_EQ(read(folder_ / "f"), "second");
  EXPECT_EQ(names(), std::set<std::string>{"f"});
}

// A limit of the file size stands for the full disk: both fail in write(), after a part was written.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST_F(Files, FullDiskKeepsTheOldFile) {
  replace_file(folder_ / "f", "old");
  const auto problem = error_of([&] {
    const FullDisk full(4096);
    replace_file(folder_ / "f", std::string(1 << 20, 'x'));
  });
  EXPECT_THAT(problem, AllOf(HasSubstr((folder_ / "f").string()), HasSubstr("File too large"), HasSubstr("ulimit")));
  EXPECT_EQ(read(folder_ / "f"), "old");
  EXPECT_EQ(names(), std::set<std::string>{"f"});
}

// Launchers of two containers may have one process number, and a shared folder may hold links of others.
TEST_F(Files, NoLinkIsFollowedAndNoDraftIsThatOfAnother) {
  write(folder_ / "other", "another's");
  std::filesystem::create_symlink(folder_ / "other", folder_ / "f");
  std::filesystem::create_symlink(folder_ / "other", folder_ / (".g.tmp-" + std::to_string(::getpid())));
  DurableFile file(folder_ / "f");
  file.write("mine", 4);
  file.finish();
  replace_file(folder_ / "g", "mine");
  EXPECT_EQ(read(folder_ / "other"), "another's");
  EXPECT_FALSE(std::filesystem::is_symlink(folder_ / "f"));
  EXPECT_EQ(read(folder_ / "f") + read(folder_ / "g"), "minemine");
}

TEST_F(Files, FileThatIsNotFinishedIsGone) {
  { DurableFile(folder_ / "f").write("abc", 3); }
  EXPECT_EQ(names(), std::set<std::string>{});
  DurableFile file(folder_ / "f");
  file.write("abc", 3);
  EXPECT_EQ(file.finish(), digest_of(folder_ / "f"));
}

TEST_F(Files, RecordsAreAddedToThoseThatThereAre) {
  const auto path = folder_ / "new/folder/log";
  for (const char* record : {"a", "b"}) {
    RecordFile file;
    EXPECT_TRUE(file.open(path));
    file.append(record);
    file.sync();
  }
  EXPECT_EQ(read(path), "ab");
  EXPECT_FALSE(RecordFile().open(path, /*is_new=*/true));
}

TEST_F(Files, ARecordThatTheDiskTakesHalfOfMayBeAppendedAgain) {
  RecordFile file;
  file.open(folder_ / "log");
  file.append("first\n");
  try {
    const FullDisk full(10);
    file.append("second\n");
    FAIL() << "it was written";
  } catch (const FileError& error) {
    EXPECT_EQ(error.error(), EFBIG);
  }
  EXPECT_EQ(read(folder_ / "log"), "first\n");
  file.append("second\n");
  EXPECT_EQ(read(folder_ / "log"), "first\nsecond\n");
}

TEST_F(Files, NoFileIsNoContentAndAnUnreadableOneAnError) {
  write(folder_ / "f", std::string(1 << 17, 'x'));
  EXPECT_EQ(read_file(folder_ / "f")->size(), size_t{1} << 17);
  EXPECT_EQ(read_file(folder_ / "none"), std::nullopt);
  EXPECT_EQ(read_file(folder_ / "f/none"), std::nullopt);
  EXPECT_THAT(error_of([&] { read_file(folder_); }), AllOf(HasSubstr(folder_.string()), HasSubstr("Is a directory")));
}

TEST_F(Files, PipesAndDevicesAreRefusedAndNotWaitedFor) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::filesystem::path& path : {pipe, std::filesystem::path("/dev/zero")}) {
    const auto refusal = AllOf(HasSubstr(path.string()), HasSubstr("is a pipe, a socket or a device"));
    EXPECT_THAT(error_of([&] { read_file(path); }), refusal);
    EXPECT_THAT(error_of([&] { digest_of(path); }), refusal);
    EXPECT_THAT(error_of([&] { map_file(path); }), HasSubstr("is not a file"));
  }
}

TEST_F(Files, RecordsAreNotAppendedToAFileThatNobodyFinds) {
  const auto path = folder_ / "f";
  RecordFile file;
  file.open(path);
  file.append("one ");
  for (const bool is_replaced : {false, true}) {
    std::filesystem::remove(path);
    if (is_replaced) write(path, "another ");
    EXPECT_THAT(error_of([&] { file.append("two "); }), HasSubstr("was removed or replaced during the run"));
    file.append("three");
    EXPECT_EQ(read_file(path), is_replaced ? "another three" : "three");
  }
  std::filesystem::remove(path);
  EXPECT_THROW(file.sync(), FileError);
}

TEST_F(Files, ALineEndsOneThatWasLeftUnfinished) {
  write(folder_ / "f", "one\ntw");
  RecordFile file;
  file.open(folder_ / "f");
  file.append_line("three");
  file.append_line("four");
  EXPECT_EQ(read_file(folder_ / "f"), "one\ntw\nthree\nfour\n");
}

TEST_F(Files, MapsAWholeFile) {
  write(folder_ / "f", "abc");
  EXPECT_EQ(map_file(folder_ / "f").text(), "abc");
  write(folder_ / "empty", "");
  EXPECT_THAT(error_of([&] { map_file(folder_ / "empty"); }), HasSubstr("is empty"));
  EXPECT_THAT(error_of([&] { map_file(folder_); }), HasSubstr("is not a file"));
  EXPECT_THAT(error_of([&] { map_file(folder_ / "none"); }), HasSubstr("No such file"));
}

TEST_F(Files, LockAdmitsOneAndEndsWithItsProcess) {
  FileLock lock(folder_ / "lock");
  EXPECT_EQ(lock.try_lock(), LockState::kOurs);
  FileLock other(folder_ / "lock");
  EXPECT_EQ(other.try_lock(), LockState::kTaken);
  const auto stop = [] { throw std::logic_error("enough"); };
  EXPECT_THROW(other.lock(stop), std::logic_error);

  const pid_t child = ::fork();
  if (child == 0) ::_exit(FileLock(folder_ / "second").try_lock() == LockState::kOurs ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(FileLock(folder_ / "second").try_lock(), LockState::kOurs);
}

}  // namespace
}  // namespace ddprun

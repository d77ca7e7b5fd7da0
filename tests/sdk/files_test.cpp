// SPDX-License-Identifier: MIT
#include "csv_cell.h"
#include "picture_files.h"
#include "strict_json.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <ddprun/digest.h>
#include <ddprun/file_error.h>
#include <ddprun/files.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

namespace ddprun {
namespace {

class Files : public FolderTest {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(Files, HaveTheDigestsOfTheStandardWholeOrInPieces) {
  Sha256 sha;
  EXPECT_EQ(sha.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  sha.update("a", 1);
  sha.update("bc", 2);
  EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-2
  write(folder_ / "a", std::string(1'000'000, 'a'));
  EXPECT_EQ(sha256_file(folder_ / "a"), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  for (const auto& path : {folder_ / "none", folder_}) EXPECT_THROW(sha256_file(path), UserError);
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

TEST_F(Files, AreReplacedAsAWholeOrNotAtAll) {
  replace_file(folder_ / "f", "a long first text");
  replace_file(folder_ / "f", "old");
  const auto problem = error_of([&] {
    const FullDisk full(4096);
    replace_file(folder_ / "f", std::string(1 << 20, 'x'));
  });
  EXPECT_TRUE(says(problem, (folder_ / "f").string() + " ... File too large ... ulimit"));
  EXPECT_EQ(read(folder_ / "f"), "old");
  { DurableFile(folder_ / "g").write("never finished", 14); }
  EXPECT_EQ(names(), std::set<std::string>{"f"});
}

// Launchers of two containers may have one process number, and a shared folder may hold links of others.
TEST_F(Files, NoLinkIsFollowedAndNoDraftIsThatOfAnother) {
  write(folder_ / "other", "another's");
  std::filesystem::create_symlink(folder_ / "other", folder_ / "f");
  std::filesystem::create_symlink(folder_ / "other", folder_ / (".g.tmp-" + std::to_string(::getpid())));
  DurableFile file(folder_ / "f");
  file.write("mine", 4);
  const auto digest = file.finish();
  EXPECT_EQ(digest, digest_of(folder_ / "f"));
  replace_file(folder_ / "g", "mine");
  EXPECT_EQ(read(folder_ / "other"), "another's");
  EXPECT_FALSE(std::filesystem::is_symlink(folder_ / "f"));
  EXPECT_EQ(read(folder_ / "f") + read(folder_ / "g"), "minemine");
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
  {
    const FullDisk full(10);
    EXPECT_TRUE(says(error_of<FileError>([&] { file.append("second\n"); }), "File too large"));
  }
  EXPECT_EQ(read(folder_ / "log"), "first\n");
  file.append("second\n");
  EXPECT_EQ(read(folder_ / "log"), "first\nsecond\n");
}

TEST_F(Files, AreReadOrMappedWholeIfTheyAreFiles) {
  write(folder_ / "f", std::string(1 << 17, 'x'));
  write(folder_ / "empty", "");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(folder_ / "f")->size(), size_t{1} << 17);
  EXPECT_EQ(map_file(folder_ / "f").text(), *read_file(folder_ / "f"));
  for (const auto* none : {"none", "f/none"}) EXPECT_EQ(read_file(folder_ / none), std::nullopt);
  expect_refused<std::filesystem::path>([](const auto& path) { return error_of([&] { map_file(path); }); },
                                        {{folder_ / "empty", "is empty"},
                                         {folder_ / "none", "No such file"},
                                         {folder_, "is not a file"},
                                         {folder_ / "pipe", "is not a file"},  // it is not waited for
                                         {"/dev/zero", "is not a file"}});
  EXPECT_TRUE(says(error_of([&] { read_file(folder_); }), folder_.string() + " ... Is a directory"));
  for (const std::filesystem::path& path : {folder_ / "pipe", std::filesystem::path("/dev/zero")}) {
    const auto refusal = path.string() + " ... is a pipe, a socket or a device";
    EXPECT_TRUE(says(error_of([&] { read_file(path); }), refusal));
    EXPECT_TRUE(says(error_of([&] { digest_of(path); }), refusal));
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
    EXPECT_TRUE(says(error_of([&] { file.append("two "); }), "was removed or replaced during the run"));
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

TEST(PictureFiles, AreKnownByTheirBytes) {
  const auto kind = [](std::string_view bytes) { return file_kind(bytes).kind; };
  EXPECT_EQ(kind("P6\n2 3"), PictureKind::kOther);
  EXPECT_EQ(kind("P7\n"), PictureKind::kNone);
  EXPECT_EQ(kind("BMW is a car and no picture"), PictureKind::kNone);
  EXPECT_EQ(kind(std::string_view("BM12345678901 \0\0\0(\0\0\0xxxx", 20)), PictureKind::kNone);
  EXPECT_EQ(kind(std::string_view("BM123456789012(\0\0\0xxxx", 22)), PictureKind::kOther);
  EXPECT_EQ(kind("GIF89a"), PictureKind::kOther);
}

TEST(CsvCell, IsUtf8WhateverTheNameIs) {
  EXPECT_EQ(csv_cell("H\xf6he"), "H\uFFFDhe");
  EXPECT_EQ(csv_cell("H\u00f6he,m"), "\"H\u00f6he,m\"");
}

TEST(StrictJson, TakesWhatTheLibraryTakesButForWhatItWouldOverlook) {
  const auto content = parse_strict_json(R"({"a": {"a": [{"a": 1.5}, {"a": null}]}, "b": {"a": -1}})");
  EXPECT_EQ(content["a"]["a"][0]["a"], 1.5);
  EXPECT_EQ(content["b"]["a"], -1);
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_strict_json(nested(8)));
  EXPECT_NO_THROW(parse_strict_json(nested(32), 32));
  expect_refused([](const std::string& text) { return error_of<std::runtime_error>([&] { parse_strict_json(text); }); },
                 {{R"({"files": {"rank_0.safetensors": 1, "model": [{"a": 1}], "rank_0.safetensors": 2}})",
                   "\"rank_0.safetensors\" appears twice"},
                  {nested(9), "deeper than 8 levels"},
                  {nested(size_t{1} << 20), "deeper than 8 levels"}});
  for (const auto& text : {std::string("{}\0 more", 8), std::string("\xEF\xBB\xBF{}")})
    EXPECT_THROW(parse_strict_json(text), std::runtime_error) << text;
  for (const auto* text : {"", "{", R"({"a": 1)", R"({"a": 1}})", R"({"a": "\xff"})"})
    EXPECT_THROW(parse_strict_json(text), nlohmann::json::exception) << text;
}

TEST(StrictJson, ErrorsNameTheTypeOfAValueOfAnySize) {
  EXPECT_EQ(describe(nlohmann::json(-4)), "-4");
  EXPECT_EQ(describe(nlohmann::json::array({1, 2, 3})), "a list");
  EXPECT_EQ(describe(nlohmann::json(std::string(1000, 'x'))), "a text");
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "datasets/idx_writer.h"
#include "http_server.h"

#include <ddprun/digest.h>
#include <ddprun/download.h>
#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::vector<std::string> kNames = {"train-images", "train-labels", "test-images", "test-labels"};

void no_progress(const std::string&, int64_t, int64_t) {}

class DataFolderTest : public ::testing::Test {
 protected:
  DataFolderTest() {
    setenv("DDPRUN_DATA", (folder_ / "data").c_str(), 1);
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    table_.name = "tiny";
    for (size_t i = 0; i < kNames.size(); ++i) {
      const std::string bytes = "content of " + kNames[i];
      write_file(remote_ / (kNames[i] + ".gz"), bytes);
      Sha256 sum;
      sum.update(bytes.data(), bytes.size());
      table_.files.push_back(
          {.archive = {kNames[i] + ".gz", static_cast<int64_t>(bytes.size()), sum.hex(), ""}, .unpacked = {kNames[i]}});
    }
  }
  ~DataFolderTest() override {
    restore("DDPRUN_DATA", data_);
    restore("XDG_CACHE_HOME", cache_);
  }

  static std::string environment(const char* name) { return std::getenv(name) ? std::getenv(name) : ""; }
  static void restore(const char* name, const std::string& value) {
    value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
  }

  void put_files(const std::filesystem::path& folder, const std::string& ending) {
    std::filesystem::create_directories(folder);
    for (const auto& name : kNames) write_file(folder / (name + ending), "x");
  }

  DataFolder open(const std::string& root = "", const std::string& mode = "ok", bool may_download = true) {
    return {table_, root, {server_.mirror(mode)}, may_download};
  }

  const std::string data_ = environment("DDPRUN_DATA"), cache_ = environment("XDG_CACHE_HOME");
  TestFolder folder_, remote_;
  HttpServer server_{remote_.path()};
  FileTable table_;
};

TEST_F(DataFolderTest, LooksUnderDdprunDataThenInTheCache) {
  put_files(folder_ / "cache/ddprun/tiny", ".gz");
  EXPECT_EQ(open().require()[0], folder_ / "cache/ddprun/tiny/train-images.gz");
  put_files(folder_ / "data/tiny", ".gz");
  EXPECT_EQ(open().require()[3], folder_ / "data/tiny/test-labels.gz");
}

TEST_F(DataFolderTest, PrefersUnpackedFiles) {
  put_files(folder_ / "data/tiny", ".gz");
  put_files(folder_ / "data/tiny", "");
  EXPECT_EQ(open().require()[0], folder_ / "data/tiny/train-images");
}

TEST_F(DataFolderTest, LooksNowhereElseThanInTheRootNamed) {
  put_files(folder_ / "data/tiny", "");
  EXPECT_FALSE(open(folder_ / "elsewhere").find());
}

TEST_F(DataFolderTest, DownloadsWhatIsMissingIntoTheCache) {
  std::filesystem::create_directories(folder_ / "cache/ddprun/tiny");
  write_file(folder_ / "cache/ddprun/tiny/train-images", "the user's own");
  open().fetch(no_progress);
  EXPECT_EQ(open().require()[0], folder_ / "cache/ddprun/tiny/train-images");
  EXPECT_EQ(read_file(open().require()[1]), "content of train-labels");
  EXPECT_THAT(server_.requests(), SizeIs(3));
}

TEST_F(DataFolderTest, AsksNoServerWhereTheFilesAre) {
  put_files(folder_ / "data/tiny", ".gz");
  open().fetch(no_progress);
  EXPECT_THAT(server_.requests(), SizeIs(0));
}

TEST_F(DataFolderTest, SaysWhatToPutWhereWhenNoMirrorHasTheFiles) {
  const auto text = message_of<UserError>([&] { open("", "missing").fetch(no_progress); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("tiny: cannot download train-images.gz"), HasSubstr("HTTP 404"),
                    HasSubstr(table_.files[3].archive.sha256), HasSubstr(server_.mirror("missing") + "test-labels.gz"),
                    HasSubstr("Put these files into " + (folder_ / "cache/ddprun/tiny").string())));
}

TEST_F(DataFolderTest, DownloadsNothingWhereThatIsForbidden) {
  const auto text = message_of<UserError>([&] { open("", "ok", false).fetch(no_progress); });
  EXPECT_THAT(text, AllOf(HasSubstr("dataset.download is false"), HasSubstr("Put these files into")));
  EXPECT_THAT(server_.requests(), SizeIs(0));
}

TEST_F(DataFolderTest, SaysThatAFolderCannotBeMade) {
  write_file(folder_ / "file", "");
  const auto root = (folder_ / "file/below").string();
  EXPECT_THAT(message_of<UserError>([&] { open(root).fetch(no_progress); }),
              HasSubstr(root + ": cannot make the folder: Not a directory"));
}

TEST_F(DataFolderTest, OneOfSeveralProcessesDownloads) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      const auto problem = message_of<std::exception>([&] { open("", "cut").fetch(no_progress); });
      _exit(problem == "nothing thrown" && open().find() ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(server_.requests(), SizeIs(8));  // each of the four files in two pieces
}

}  // namespace
}  // namespace ddprun::test

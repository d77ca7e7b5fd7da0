// SPDX-License-Identifier: MIT
// Files from mirrors with each of the faults that downloads meet, and the folders in which data sets look for theirs.
#include "http_server.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "support/written_files.h"

#include <ddprun/digest.h>
#include <ddprun/download.h>

#include <gmock/gmock.h>

#include <sys/wait.h>

namespace ddprun::test {
namespace {

using ::testing::SizeIs;

std::string sha256(const std::string& bytes) {
  Sha256 sum;
  sum.update(bytes.data(), bytes.size());
  return sum.hex();
}

void no_progress(const std::string&, int64_t, int64_t) {}

class Download : public ::testing::Test {
 protected:
  Download() {
    for (uint32_t i = 0; i < 200'000; ++i) content_ += static_cast<char>(i * i >> 3);
    write_bytes(remote_ / "data.gz", content_);
    file_ = {.name = "data.gz", .bytes = 200'000, .sha256 = sha256(content_)};
  }

  // The problems of the mirrors, a line each.
  std::string download(const std::vector<std::string>& mirrors, const Progress& progress = no_progress) {
    std::string problems;
    for (const auto& problem : ddprun::download(file_, mirrors, local_.path(), progress, limits_))
      problems += problem + "\n";
    return problems;
  }

  bool has_the_file_alone() { return read_bytes(local_ / "data.gz") == content_ && files() == 1; }
  long files() { return std::distance(std::filesystem::directory_iterator(local_.path()), {}); }

  TestFolder remote_, local_;
  HttpServer server_{remote_.path()};
  std::string content_;
  RemoteFile file_;
  DownloadLimits limits_{
      .connect_seconds = 20, .stall_seconds = 20, .attempts = 4, .most_bytes = 10 << 20, .pause_milliseconds = 1};
};

TEST_F(Download, BringsTheFileFromTheFirstMirrorThatHasItAndSaysHowFarItIs) {
  std::string texts;
  std::pair<int64_t, int64_t> last;
  const auto note = [&](const std::string& text, int64_t done, int64_t total) {
    texts += text + "\n";
    last = {done, total};
  };
  EXPECT_EQ(download({server_.mirror("missing"), server_.mirror("wrong"), server_.mirror("ok")}, note), "");
  EXPECT_TRUE(has_the_file_alone());
  EXPECT_TRUE(
      says(texts, "downloading data.gz ... /missing/data.gz ... HTTP 404 ... /wrong/data.gz ... wrong checksum"));
  EXPECT_EQ(last, std::pair(file_.bytes, file_.bytes));
  const auto stop = [](const std::string&, int64_t, int64_t) { throw std::logic_error("stop"); };
  std::filesystem::remove(local_ / "data.gz");
  EXPECT_THROW(download({server_.mirror("ok")}, stop), std::logic_error);
}

// A fault of the server, the part that an earlier run has left, and the requests that bring the file nevertheless.
TEST_F(Download, ContinuesWhereItCanAndBeginsAgainWhereItCannot) {
  limits_.stall_seconds = 1;
  for (const auto& [mode, part, requests] : {
           std::tuple{"cut", std::string(), "cut data.gz 0|cut data.gz 100000|"},
           {"norange", "", "norange data.gz 0|norange data.gz 100000|norange data.gz 0|"},
           {"stall", "", "stall data.gz 0|stall data.gz 100000|"},
           {"ok", content_.substr(0, 150'000), "ok data.gz 150000|"},
           {"ok", content_, "ok data.gz 200000|"},  // there is no more
           {"ok", std::string(150'000, 'x'), "ok data.gz 150000|ok data.gz 0|"},
       }) {
    const auto before = server_.requests().size();
    std::filesystem::remove(local_ / "data.gz");
    if (!part.empty()) write_bytes(local_ / "data.gz.part", part);
    EXPECT_EQ(download({server_.mirror(mode)}), "");
    EXPECT_TRUE(has_the_file_alone()) << mode;
    std::string seen;
    const auto all = server_.requests();
    for (size_t i = before; i < all.size(); ++i) seen += all[i] + "|";
    EXPECT_EQ(seen, requests);
  }
}

TEST_F(Download, NamesWhatIsWrongAndKeepsNothingOfAWrongFile) {
  limits_.stall_seconds = 1;
  setenv("SSL_CERT_FILE", "/nowhere/authorities.pem", 1);
  const auto from = [&](const std::string& mirror) { return download({mirror}); };
  expect_refused(from, {{server_.mirror("wrong"), "wrong checksum: sha256 ... " + file_.sha256},
                        {"http://127.0.0.1:1/", "http://127.0.0.1:1/data.gz: Failed to connect"},
                        {"gopher://127.0.0.1/", "gopher"},
                        {"https" + server_.mirror("ok").substr(4), "/nowhere/authorities.pem"}});
  unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(files(), 0);
  expect_refused(from, {{server_.mirror("silent"), "/silent/data.gz: Operation too slow"},
                        {server_.mirror("endless"), "sends more than"}});
}

TEST_F(Download, TakesAnotherPackingOfTheSameContent) {
  write_packed(remote_ / "data.gz", "the same content");
  file_.content_sha256 = sha256("the same content");
  EXPECT_EQ(download({server_.mirror("ok")}), "");
  EXPECT_TRUE(std::filesystem::exists(local_ / "data.gz"));
}

const std::vector<std::string> kNames = {"train-images", "train-labels", "test-images", "test-labels"};

// Sets a variable of the environment as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value)
      : name_(name), before_(std::getenv(name) ? std::getenv(name) : "") {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

class DataFolderTest : public FolderTest {
 protected:
  DataFolderTest() {
    table_.name = "tiny";
    for (const auto& name : kNames) {
      const std::string bytes = "content of " + name;
      write_bytes(remote_ / (name + ".gz"), bytes);
      table_.files.push_back(
          {.archive = {name + ".gz", static_cast<int64_t>(bytes.size()), sha256(bytes), ""}, .unpacked = {name}});
    }
  }

  void put_files(const std::string& folder, const std::string& ending) const {
    for (const auto& name : kNames) write(folder_ / folder / (name + ending), "x");
  }

  DataFolder open(const std::string& root = "", const std::string& mode = "ok", bool may_download = true) {
    return {table_, root, {server_.mirror(mode)}, may_download};
  }
  std::string problem(const std::string& root, const std::string& mode, bool may_download) {
    return error_of([&] { open(root, mode, may_download).fetch(no_progress); });
  }

  const Variable data_{"DDPRUN_DATA", folder_ / "data"}, cache_{"XDG_CACHE_HOME", folder_ / "cache"};
  TestFolder remote_;
  HttpServer server_{remote_.path()};
  FileTable table_;
};

TEST_F(DataFolderTest, LooksUnderDdprunDataThenInTheCacheForUnpackedFilesFirst) {
  put_files("cache/ddprun/tiny", ".gz");
  EXPECT_EQ(open().require()[0], folder_ / "cache/ddprun/tiny/train-images.gz");
  put_files("data/tiny", ".gz");
  EXPECT_EQ(open().require()[3], folder_ / "data/tiny/test-labels.gz");
  put_files("data/tiny", "");
  EXPECT_EQ(open().require()[0], folder_ / "data/tiny/train-images");
  EXPECT_FALSE(open(folder_ / "elsewhere").find()) << "nowhere else than in the root that is named";
  open().fetch(no_progress);
  EXPECT_THAT(server_.requests(), SizeIs(0));
}

TEST_F(DataFolderTest, DownloadsWhatIsMissingIntoTheCache) {
  write(folder_ / "cache/ddprun/tiny/train-images", "the user's own");
  open().fetch(no_progress);
  EXPECT_EQ(open().require()[0], folder_ / "cache/ddprun/tiny/train-images");
  EXPECT_EQ(read(open().require()[1]), "content of train-labels");
  EXPECT_THAT(server_.requests(), SizeIs(3));
}

TEST_F(DataFolderTest, SaysWhatToPutWhereAndWhy) {
  const auto put_there = " ... Put these files into " + (folder_ / "cache/ddprun/tiny").string();
  const auto missing = problem("", "missing", true);
  EXPECT_TRUE(says(missing, "tiny: cannot download train-images.gz ... HTTP 404" + put_there));
  EXPECT_TRUE(says(missing, table_.files[3].archive.sha256));
  EXPECT_TRUE(says(missing, server_.mirror("missing") + "test-labels.gz"));
  const auto requests = server_.requests().size();
  EXPECT_TRUE(says(problem("", "ok", false), "dataset.download is false" + put_there));
  EXPECT_EQ(server_.requests().size(), requests);
  write(folder_ / "file", "");
  const auto below = (folder_ / "file/below").string();
  EXPECT_TRUE(says(problem(below, "ok", true), below + ": cannot make the folder: Not a directory"));
}

TEST_F(DataFolderTest, OneOfSeveralProcessesDownloads) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) _exit(problem("", "cut", true).empty() && open().find() ? 0 : 1);
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

// SPDX-License-Identifier: MIT
#include "datasets/idx_writer.h"
#include "http_server.h"

#include <ddprun/digest.h>
#include <ddprun/download.h>
#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string sha256(const std::string& bytes) {
  Sha256 sum;
  sum.update(bytes.data(), bytes.size());
  return sum.hex();
}

class Download : public ::testing::Test {
 protected:
  Download() {
    for (uint32_t i = 0; i < 200'000; ++i) content_ += static_cast<char>(i * i >> 3);
    write_file(remote_ / "data.gz", content_);
    file_ = {.name = "data.gz", .bytes = 200'000, .sha256 = sha256(content_)};
    limits_ = {
        .connect_seconds = 20, .stall_seconds = 20, .attempts = 4, .most_bytes = 10 << 20, .pause_milliseconds = 1};
  }

  std::vector<std::string> download(const std::vector<std::string>& modes) {
    std::vector<std::string> mirrors;
    for (const auto& mode : modes) mirrors.push_back(server_.mirror(mode));
    return ddprun::download(
        file_, mirrors, local_.path(),
        [this](const std::string& text, int64_t done, int64_t total) {
          texts_.push_back(text);
          done_ = done;
          total_ = total;
        },
        limits_);
  }

  void expect_file() {
    EXPECT_TRUE(read_file(local_ / "data.gz") == content_);
    expect_nothing_else(1);
  }

  void expect_nothing_else(long files = 0) {
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(local_.path()), {}), files);
  }

  TestFolder remote_, local_;
  HttpServer server_{remote_.path()};
  std::string content_;
  RemoteFile file_;
  DownloadLimits limits_;
  std::vector<std::string> texts_;
  int64_t done_ = 0, total_ = 0;
};

TEST(Sha256, IsTheStandards) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(Download, BringsTheFileAndTellsHowFarItIs) {
  EXPECT_THAT(download({"ok"}), IsEmpty());
  expect_file();
  EXPECT_THAT(texts_, Contains("downloading data.gz"));
  EXPECT_EQ(done_, 200'000);
  EXPECT_EQ(total_, 200'000);
}

TEST_F(Download, TriesTheNextMirror) {
  EXPECT_THAT(download({"missing", "wrong", "ok"}), IsEmpty());
  expect_file();
  EXPECT_THAT(texts_, Contains(AllOf(HasSubstr("/missing/data.gz"), HasSubstr("HTTP 404"))));
  EXPECT_THAT(texts_, Contains(AllOf(HasSubstr("/wrong/data.gz"), HasSubstr("wrong checksum"))));
}

TEST_F(Download, GoesOnWhereItWasCutOff) {
  EXPECT_THAT(download({"cut"}), IsEmpty());
  expect_file();
  EXPECT_THAT(server_.requests(), ElementsAre("cut data.gz 0", "cut data.gz 100000"));
}

TEST_F(Download, StartsAgainWhereTheServerKnowsNoRanges) {
  EXPECT_THAT(download({"norange"}), IsEmpty());
  expect_file();
  EXPECT_THAT(server_.requests(), ElementsAre("norange data.gz 0", "norange data.gz 100000", "norange data.gz 0"));
}

TEST_F(Download, GoesOnAfterAStall) {
  limits_.stall_seconds = 1;
  EXPECT_THAT(download({"stall"}), IsEmpty());
  expect_file();
  EXPECT_THAT(server_.requests(), SizeIs(2));
}

TEST_F(Download, GoesOnWithWhatAnEarlierRunLeft) {
  write_file(local_ / "data.gz.part", content_.substr(0, 150'000));
  EXPECT_THAT(download({"ok"}), IsEmpty());
  expect_file();
  EXPECT_THAT(server_.requests(), ElementsAre("ok data.gz 150000"));
}

TEST_F(Download, TakesAPartThatIsAlreadyWhole) {
  write_file(local_ / "data.gz.part", content_);
  EXPECT_THAT(download({"ok"}), IsEmpty());
  expect_file();
}

TEST_F(Download, ThrowsAwayAPartOfAnotherFile) {
  write_file(local_ / "data.gz.part", std::string(150'000, 'x'));
  EXPECT_THAT(download({"ok"}), IsEmpty());
  expect_file();
}

TEST_F(Download, GivesUpOnASilentServer) {
  limits_.stall_seconds = 1;
  EXPECT_THAT(download({"silent"}), ElementsAre(HasSubstr("/silent/data.gz: Operation too slow")));
}

TEST_F(Download, KeepsNothingOfAWrongFile) {
  EXPECT_THAT(download({"wrong"}), ElementsAre(AllOf(HasSubstr("wrong checksum: sha256 "), HasSubstr(file_.sha256))));
  expect_nothing_else();
}

TEST_F(Download, CutsOffAServerThatNeverStops) {
  EXPECT_THAT(download({"endless"}), ElementsAre(HasSubstr("sends more than")));
}

TEST_F(Download, TakesAnotherPackingOfTheSameContent) {
  write_packed(remote_ / "data.gz", "the same content");
  file_.content_sha256 = sha256("the same content");
  EXPECT_THAT(download({"ok"}), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(local_ / "data.gz"));
}

TEST_F(Download, NamesAnAddressWithoutAServer) {
  const auto problems = ddprun::download(
      file_, {"http://127.0.0.1:1/", "gopher://127.0.0.1/"}, local_.path(), [](const std::string&, int64_t, int64_t) {},
      limits_);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("http://127.0.0.1:1/data.gz: Failed to connect"), HasSubstr("gopher")));
  expect_nothing_else();
}

TEST_F(Download, TrustsTheCertificatesThatTheEnvironmentNames) {
  setenv("SSL_CERT_FILE", "/nowhere/authorities.pem", 1);
  const auto problems = ddprun::download(
      file_, {"https" + server_.mirror("ok").substr(4)}, local_.path(), [](const std::string&, int64_t, int64_t) {},
      limits_);
  unsetenv("SSL_CERT_FILE");
  EXPECT_THAT(problems, ElementsAre(HasSubstr("/nowhere/authorities.pem")));
}

TEST_F(Download, PassesOnWhatTheProgressThrows) {
  const auto stop = [](const std::string&, int64_t, int64_t) { throw std::logic_error("stop"); };
  EXPECT_THROW(ddprun::download(file_, {server_.mirror("ok")}, local_.path(), stop, limits_), std::logic_error);
}

}  // namespace
}  // namespace ddprun::test

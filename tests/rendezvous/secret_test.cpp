// SPDX-License-Identifier: MIT
#include "rendezvous/secret.h"

#include "support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TokenFile : public ::testing::Test {
 protected:
  TokenFile() {
    auto pattern = (fs::temp_directory_path() / "secret-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TokenFile() override { fs::remove_all(folder_); }

  fs::path file(const std::string& content, fs::perms perms = fs::perms::owner_read) const {
    const auto path = folder_ / "token";
    std::ofstream(path) << content;
    fs::permissions(path, perms);
    return path;
  }

  fs::path folder_;
};

TEST_F(TokenFile, ItsFirstLineIsTheTokenWithoutTheBlanksOfEditors) {
  const auto secret = read_secret("run", file(" \t0123abcd\r\nnot this\n"));
  EXPECT_EQ(secret.id, "run");
  EXPECT_EQ(secret.token, "0123abcd");
}

TEST_F(TokenFile, OneThatIsEmptyOrMissingIsRefusedByItsName) {
  for (const auto& path : {file("\n0123abcd\n"), folder_ / "missing"})
    EXPECT_THAT(error_of([&] { read_secret("run", path); }),
                HasSubstr("launch.token_file: " + path.string() + " cannot be read, or its first line is empty"));
}

TEST_F(TokenFile, OneThatOthersMayReadIsRefused) {
  const auto path = file("0123abcd\n", fs::perms::owner_read | fs::perms::group_read);
  EXPECT_THAT(error_of([&] { read_secret("run", path); }), HasSubstr("run chmod 600 " + path.string()));
}

TEST(Token, IsDrawnAnewEachTime) {
  EXPECT_EQ(random_token().size(), 64);
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace ddprun

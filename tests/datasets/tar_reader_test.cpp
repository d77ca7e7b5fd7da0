// SPDX-License-Identifier: MIT
#include "tar_reader.h"

#include "idx_writer.h"
#include "tar_writer.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TarReader : public ::testing::Test {
 protected:
  // "name=content;" of all files.
  std::string read(const std::filesystem::path& path) {
    cifar::TarReader tar(path);
    std::string text;
    while (tar.next()) {
      if (!tar.is_file()) continue;
      std::vector<uint8_t> bytes(static_cast<size_t>(tar.size()));
      tar.read(bytes);
      text += tar.name() + "=" + std::string(bytes.begin(), bytes.end()) + ";";
    }
    return text;
  }

  std::string problem(const std::string& packed) {
    return message_of<UserError>([&] { read(write_file(folder_ / "a.tar.gz", packed)); });
  }

  std::string packed(const std::string& tar) { return read_file(write_packed(folder_ / "packed", tar)); }

  TestFolder folder_;
};

TEST_F(TarReader, GivesTheMembersInOrder) {
  const auto tar = tar_member("./d/", "", '5') + tar_member("./d/a", "first") +
                   tar_member("d/b", std::string(600, 'x')) + tar_member("d/c", "last") + kTarEnd;
  EXPECT_EQ(read(write_packed(folder_ / "a.tar.gz", tar)), "d/a=first;d/b=" + std::string(600, 'x') + ";d/c=last;");
}

TEST_F(TarReader, NamesWhatIsNoArchive) {
  EXPECT_THAT(problem("<!DOCTYPE html>"), AllOf(HasSubstr("a.tar.gz: is not a .tar.gz archive"), HasSubstr("again")));
  EXPECT_THAT(problem(packed(std::string(2000, 'x'))), HasSubstr("a.tar.gz: is "));
}

TEST_F(TarReader, NamesATruncatedArchive) {
  std::string noise;
  for (uint32_t i = 0; i < 50'000; ++i) noise += static_cast<char>(i * i >> 5);
  const auto whole = packed(tar_member("a", noise) + kTarEnd);
  EXPECT_THAT(problem(whole.substr(0, whole.size() / 2)), HasSubstr("is truncated"));
  EXPECT_THAT(problem(whole.substr(0, whole.size() - 1)), HasSubstr("the end of the packed file is missing"));
  EXPECT_THAT(problem(packed(tar_member("a", "short", '0', 5000))),
              HasSubstr("is truncated or damaged in a, of which"));
}

TEST_F(TarReader, NamesAFlippedBit) {
  std::string noise;
  for (uint32_t i = 0; i < 5'000; ++i) noise += static_cast<char>(i * i >> 5);
  const auto whole = packed(tar_member("a", noise) + kTarEnd);
  for (size_t at = 20; at < whole.size() - 4; at += 97) {
    auto flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_NE(problem(flipped), "nothing thrown") << at;
  }
}

TEST_F(TarReader, NamesAnArchiveThatGoesOn) {
  EXPECT_THAT(problem(packed(tar_member("a", "x") + kTarEnd + std::string(3 << 20, '\0'))),
              HasSubstr("continues after its last member"));
}

}  // namespace
}  // namespace ddprun::test

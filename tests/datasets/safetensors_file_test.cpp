// SPDX-License-Identifier: MIT
#include "safetensors_file.h"

#include "array_files.h"
#include "idx_writer.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SafetensorsFile : public ::testing::Test {
 protected:
  std::vector<arrays::StoredArray> read(const std::string& bytes, const std::vector<std::string>& names = {"a"}) {
    return arrays::read_safetensors(map_file(write_file(folder_ / "a.safetensors", bytes)), names);
  }

  std::string problem(const std::string& header, const std::string& values) {
    return message_of<UserError>([&] { read(safetensors_file(header, values)); });
  }

  TestFolder folder_;
};

TEST_F(SafetensorsFile, GivesTheTensorsByName) {
  const auto header = R"({"__metadata__":{"format":"pt"},)" + entry("b", "I64", "[2]", 3, 19) + "," +
                      entry("a", "U8", "[1,3]", 0, 3) + "}";
  const auto found = read(safetensors_file(header, "\x01\x02\x03" + bytes_of<int64_t>({-5, 6})), {"a", "b"});
  EXPECT_THAT(found[0].shape, ElementsAre(1, 3));
  EXPECT_THAT(arrays::to_integers(found[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(arrays::to_integers(found[1]), ElementsAre(-5, 6));
}

TEST_F(SafetensorsFile, ReadsBfloat16) {
  float value = 0;
  arrays::copy_row(read(safetensors_file("{" + entry("a", "BF16", "[1]", 0, 2) + "}", "\x20\xC0"))[0], 0,
                   std::array<arrays::Affine, 1>{}, &value);
  EXPECT_EQ(value, -2.5F);
}

TEST_F(SafetensorsFile, IgnoresTheTypeOfATensorThatIsNotUsed) {
  const auto header = "{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("b", "F8_E4M3", "[2]", 1, 3) + "}";
  EXPECT_EQ(read(safetensors_file(header, "xyz")).size(), 1U);
}

TEST_F(SafetensorsFile, NamesATensorThatIsNotThere) {
  EXPECT_THAT(problem("{" + entry("x", "U8", "[1]", 0, 1) + "," + entry("y", "U8", "[1]", 1, 2) + "}", "12"),
              AllOf(HasSubstr("a.safetensors: has no tensor \"a\", but x, y"), HasSubstr("dataset.input")));
}

TEST_F(SafetensorsFile, NamesATypeThatIsNotRead) {
  EXPECT_THAT(problem("{" + entry("a", "F8_E4M3", "[8]", 0, 8) + "}", "12345678"),
              HasSubstr("dtype F8_E4M3, expected one of F64, F32"));
}

TEST_F(SafetensorsFile, NamesADamagedFile) {
  EXPECT_THAT(problem("{" + entry("a", "F32", "[2]", 0, 8) + "}", "1234567"), HasSubstr("it is truncated"));
}

}  // namespace
}  // namespace ddprun::test

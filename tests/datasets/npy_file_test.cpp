// SPDX-License-Identifier: MIT
#include "npy_file.h"

#include "array_files.h"
#include "idx_writer.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace ddprun::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpyFile : public ::testing::Test {
 protected:
  arrays::StoredArray read(const std::string& bytes) {
    return arrays::read_npy(map_file(write_file(folder_ / "a.npy", bytes)));
  }

  std::string problem(const std::string& bytes) {
    return message_of<UserError>([&] { read(bytes); });
  }

  TestFolder folder_;
};

TEST_F(NpyFile, GivesShapeAndValues) {
  const auto array = read(npy_file("<i2", "(2, 3)", bytes_of<int16_t>({1, -2, 3, 4, 5, 600})));
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
  EXPECT_THAT(arrays::to_integers(array), ElementsAre(1, -2, 3, 4, 5, 600));
}

TEST_F(NpyFile, ReadsEveryTypeOfNumber) {
  const auto first = [&](const std::string& descr, const std::string& values) {
    float value = 0;
    arrays::copy_row(read(npy_file(descr, "(1,)", values)), 0, std::array<arrays::Affine, 1>{}, &value);
    return value;
  };
  EXPECT_EQ(first("<f8", bytes_of<double>({-2.5})), -2.5F);
  EXPECT_EQ(first("<f4", bytes_of<float>({-2.5})), -2.5F);
  EXPECT_EQ(first("<f2", bytes_of<uint16_t>({0xC100})), -2.5F);
  EXPECT_EQ(first("<i8", bytes_of<int64_t>({-7})), -7);
  EXPECT_EQ(first("<i4", bytes_of<int32_t>({-7})), -7);
  EXPECT_EQ(first("<i2", bytes_of<int16_t>({-7})), -7);
  EXPECT_EQ(first("|i1", bytes_of<int8_t>({-7})), -7);
  EXPECT_EQ(first("|u1", bytes_of<uint8_t>({200})), 200);
  EXPECT_EQ(first("|b1", "\x01"), 1);
}

TEST_F(NpyFile, ReadsLaterVersionsOfTheFormat) {
  const std::string dictionary = "{'shape': (1,), 'fortran_order': True, 'descr': '<i4'}";
  for (const char version : {'\x02', '\x03'}) {
    const auto bytes = std::string("\x93NUMPY") + version + std::string(1, '\0') + little_endian(dictionary.size(), 4) +
                       dictionary + bytes_of<int32_t>({5});
    EXPECT_THAT(arrays::to_integers(read(bytes)), ElementsAre(5));
  }
}

TEST_F(NpyFile, NamesWhatItCannotRead) {
  EXPECT_THAT(problem(npy_file(">f4", "(1,)", "1234")),
              AllOf(HasSubstr("a.npy: is big-endian ('>f4'), expected '<f4'"), HasSubstr("save array.astype('<f4')")));
  EXPECT_THAT(problem(npy_file("|O", "(1,)", "1234")), HasSubstr("holds Python objects ('|O')"));
  EXPECT_THAT(problem(npy_file("<c8", "(1,)", "12345678")), HasSubstr("values of type '<c8', expected f8"));
  EXPECT_THAT(problem(npy_file("", "(1,)", "12345678")), HasSubstr("values of type ''"));
  EXPECT_THAT(problem(npy_file("2f4", "(1,)", "1234")), HasSubstr("values of type '2f4'"));  // two in each element
  EXPECT_THAT(problem(npy_header("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}") + "1234"),
              HasSubstr("records of several fields"));
  EXPECT_THAT(problem(npy_header("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2)}") + "1234"),
              AllOf(HasSubstr("is in Fortran order"), HasSubstr("numpy.ascontiguousarray")));
  EXPECT_THAT(problem("PK\x03\x04 and so on"), HasSubstr("is a .npz archive"));
  EXPECT_THAT(problem("1.0,2.0,3.0,4.0\n"), HasSubstr("is not a .npy file"));
}

TEST_F(NpyFile, NamesAHeaderThatClaimsWhatTheFileDoesNotHold) {
  EXPECT_THAT(problem(npy_file("<f4", "(2, 2)", std::string(15, 'x'))),
              HasSubstr("claims [2, 2] float32, which is 16 bytes, but 15 follow: it is truncated"));
  EXPECT_THAT(problem(npy_file("<f4", "(2, 2)", std::string(17, 'x'))), HasSubstr("more than the header says"));
  const std::string huge = "(4611686018427387904, 4611686018427387904)";
  EXPECT_THAT(problem(npy_file("<f8", huge, "x")), HasSubstr("which is more than any number of bytes"));
  EXPECT_THAT(problem(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)), HasSubstr("a header of 4294967295 bytes"));
  EXPECT_THAT(problem(std::string("\x93NUMPY\x01\x00\x76\x00", 10)), HasSubstr("is not a .npy file"));
}

TEST_F(NpyFile, NamesWhatIsWrongInTheDictionary) {
  EXPECT_THAT(problem(npy_header("{'descr': '<f4', 'shape': (1,)}") + "1234"),
              HasSubstr("the key 'fortran_order' is missing"));
  EXPECT_THAT(problem(npy_header("{'descr': '<f4', 'descr': '<f4'}")), HasSubstr("the key 'descr' appears twice"));
  EXPECT_THAT(problem(npy_header("{'descr': '<f4', 'fortran_order': 0}")), HasSubstr("expected True or False"));
  EXPECT_THAT(problem(npy_header("{'shape': (-1,)}")), HasSubstr("expected an extent, found \"-1,)"));
  EXPECT_THAT(problem(npy_header("{'shape': (1)}")), HasSubstr("expected a ,"));
  EXPECT_THAT(problem(npy_header("{'shape': (01,)}")), HasSubstr("expected an extent"));
  EXPECT_THAT(problem(npy_header("{'shape': (99999999999999999999,)}")), HasSubstr("expected an extent"));
  EXPECT_THAT(problem(npy_header("[1, 2]")), HasSubstr("expected a {"));
  EXPECT_THAT(problem(npy_header("{'descr")), HasSubstr("expected a string"));
}

TEST_F(NpyFile, NoChangedByteGetsPastTheChecks) {
  const auto good = npy_file("<f4", "(2, 2)", std::string(16, 'x'));
  for (size_t i = 0; i < good.size() - 16; ++i) {
    for (const int change : {1, 2, 16, 128}) {
      auto bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      try {
        const auto array = read(bytes);
        EXPECT_EQ(byte_count(array.shape, array.dtype), 16U);
      } catch (const UserError&) {
      }
    }
  }
}

}  // namespace
}  // namespace ddprun::test

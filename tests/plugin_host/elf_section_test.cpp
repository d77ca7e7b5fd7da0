// SPDX-License-Identifier: MIT
#include "plugin_host/fixture_files.h"
#include "plugin_host/plugin_file.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>

#include <elf.h>

#include <cstring>
#include <random>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

std::string problem_of(const std::filesystem::path& file) try {
  return read_elf_section(file, DDPRUN_DESCRIPTOR_SECTION, 64) ? "" : "no such section";
} catch (const UserError& error) {
  return error.what();
}

class ElfSection : public ::testing::Test {
 protected:
  std::string problem_with(size_t offset, char byte) {
    auto bytes = library_;
    bytes[offset] = byte;
    return problem_of(folder_.write("changed.so", bytes));
  }

  const TemporaryFolder folder_;
  const std::string library_ = file_bytes(fixture("reads_all_option_types"));
};

TEST_F(ElfSection, ReadsTheBytesOfTheSectionUpToTheLimit) {
  const auto bytes = read_elf_section(fixture("reads_all_option_types"), DDPRUN_DESCRIPTOR_SECTION, 7);
  EXPECT_EQ(bytes, "DDPRUN1");
  EXPECT_EQ(read_elf_section(fixture("reads_all_option_types"), ".no_such_section", 7), std::nullopt);
}

TEST_F(ElfSection, TellsWhatTheFileIsWhereItIsNoLibraryOfThisMachine) {
  EXPECT_THAT(problem_of(folder_.path() / "absent.so"), HasSubstr("No such file"));
  EXPECT_THAT(problem_of(folder_.path()), HasSubstr("not a file"));
  EXPECT_THAT(problem_of(folder_.write("empty.so", "")), HasSubstr("empty"));
  EXPECT_THAT(problem_of(folder_.write("text.so", std::string(200, 'x'))), HasSubstr("not a shared library"));
  EXPECT_THAT(problem_with(EI_CLASS, ELFCLASS32), HasSubstr("32-bit machine"));
  EXPECT_THAT(problem_with(EI_DATA, ELFDATA2MSB), HasSubstr("big-endian machine"));
  EXPECT_THAT(problem_with(offsetof(Elf64_Ehdr, e_type), ET_REL), HasSubstr("not a shared library"));
  EXPECT_THAT(problem_with(offsetof(Elf64_Ehdr, e_machine), EM_RISCV - 256), HasSubstr("another processor"));
  EXPECT_THAT(problem_with(offsetof(Elf64_Ehdr, e_shoff) + 6, 1), HasSubstr("damaged or cut off"));
}

TEST_F(ElfSection, FindsNothingInALibraryWithoutSections) {
  auto bytes = library_;
  bytes[offsetof(Elf64_Ehdr, e_shnum)] = bytes[offsetof(Elf64_Ehdr, e_shnum) + 1] = 0;
  EXPECT_EQ(problem_of(folder_.write("stripped.so", bytes)), "no such section");
}

TEST_F(ElfSection, EveryTruncationIsRefused) {
  for (size_t cut = 0; cut < 200; ++cut) {
    const auto length = library_.size() * cut / 200;
    EXPECT_NE(read_plugin_file(folder_.write("cut.so", library_.substr(0, length))).problem, "") << length << " bytes";
  }
  for (size_t length = 0; length < 100; ++length) {
    EXPECT_NE(problem_of(folder_.write("cut.so", library_.substr(0, length))), "") << length << " bytes";
  }
}

TEST_F(ElfSection, FlippedBitsNeverCrash) {
  std::mt19937 random(7);
  Elf64_Ehdr header;
  std::memcpy(&header, library_.data(), sizeof header);
  const auto flip = [&](std::string& bytes, size_t begin, size_t end) {
    bytes[begin + random() % (end - begin)] ^= static_cast<char>(1 << random() % 8);
  };
  for (int round = 0; round < 900; ++round) {
    auto bytes = library_;
    flip(bytes, 0, sizeof header);
    if (round % 3 == 1) bytes = library_;
    flip(bytes, header.e_shoff, bytes.size());  // the section table is a library's end
    if (round % 3 == 2) bytes = library_;
    flip(bytes, 0, bytes.size());
    const auto info = read_plugin_file(folder_.write("flipped.so", bytes));
    EXPECT_TRUE(!info.problem.empty() || !info.name.empty());
  }
}

}  // namespace
}  // namespace ddprun

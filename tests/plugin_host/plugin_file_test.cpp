// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_file.h"

#include "plugin_host/fixture_files.h"
#include "support/error_of.h"

#include <elf.h>

#include <array>
#include <cstring>
#include <random>

namespace ddprun {
namespace {

template <class Number>
std::string bytes_of(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

class PluginFile : public ::testing::Test {
 protected:
  // What is wrong with the descriptor of a good plugin with these bytes at an offset of it.
  std::string problem_with(size_t offset, const std::string& bytes) const {
    return read_plugin_file(folder_.write("stamped.so", stamped(offset, bytes))).problem;
  }

  const TemporaryFolder folder_;
};

TEST_F(PluginFile, SaysTheDescriptorOfAPlugin) {
  const auto info = read_plugin_file(fixture("reads_all_option_types"));
  EXPECT_EQ(info.problem, "");
  EXPECT_EQ(info.kind, "logger");
  EXPECT_EQ(info.name, "reads_all_option_types");
  EXPECT_EQ(info.help, "a logger that has an option of each type");
  EXPECT_EQ(info.sdk_version, DDPRUN_VERSION);
  EXPECT_EQ(info.torch_version, TORCH_VERSION);
  EXPECT_EQ(info.compiler, __VERSION__);
  EXPECT_EQ(read_plugin_file(fixture("bad_sdk_version")).name, "bad_sdk_version") << "a flawed one, too";
}

using Version = std::array<uint32_t, 3>;

TEST_F(PluginFile, EachFlawHasItsOwnTextThatNamesBothSidesAndTheCure) {
  const std::string torch = TORCH_VERSION, own = "this ddprun with ddprun SDK " DDPRUN_VERSION;
  const auto end = torch.rfind('.');
  constexpr uint32_t kMajor = DDPRUN_VERSION_MAJOR, kMinor = DDPRUN_VERSION_MINOR, kPatch = DDPRUN_VERSION_PATCH;
  constexpr auto kSdk = offsetof(PluginDescriptor, sdk_version), kTorch = offsetof(PluginDescriptor, torch_version);
  const auto built_with = [&](const Version& sdk) {
    return "built with ddprun SDK " + std::to_string(sdk[0]) + "." + std::to_string(sdk[1]) + "." +
           std::to_string(sdk[2]) + ", but " + own + "; rebuild the plugin with the SDK of this ddprun";
  };
  const Version patched{kMajor, kMinor, kPatch + 7}, later{kMajor, kMinor + 1, kPatch},
      next{kMajor + 1, kMinor, kPatch};
  struct Flaw {
    size_t offset;
    std::string bytes, words;
  };
  for (const auto& [offset, bytes, words] : std::vector<Flaw>{
           {offsetof(PluginDescriptor, magic), "DDPRUN9", "DDPRUN9 ... DDPRUN1; ... rebuild"},
           {offsetof(PluginDescriptor, size), bytes_of(static_cast<uint32_t>(sizeof(PluginDescriptor) + 8)),
            std::to_string(sizeof(PluginDescriptor) + 8) + " bytes ... rebuild"},
           {kSdk, bytes_of(patched), ""},
           {kSdk, bytes_of(later), built_with(later)},
           {kSdk, bytes_of(next), built_with(next)},
           {kTorch, torch.substr(0, end) + ".9", ""},
           {kTorch, torch.substr(0, end) + "5.", "built with LibTorch "},
           {kTorch, std::string("1.13.1\0", 7),
            "built with LibTorch 1.13.1 ... with LibTorch " + torch + " ... rebuild"},
           {offsetof(PluginDescriptor, cxx11_abi), bytes_of(uint32_t{1 - _GLIBCXX_USE_CXX11_ABI}),
            "_GLIBCXX_USE_CXX11_ABI=0 ... rebuild the plugin with -D_GLIBCXX_USE_CXX11_ABI=1"},
           {offsetof(PluginDescriptor, stdlib), std::string("libc++\0", 7), "standard library libc++ ... libstdc++;"},
           {offsetof(PluginDescriptor, kind), "sampler",
            "\"sampler\" ... model, dataset, optimizer, objective, callback and logger"}})
    EXPECT_TRUE(says(problem_with(offset, bytes), words));
  if constexpr (kMajor == 0 && kMinor > 0) {  // an older one, which from 1.0 on works
    EXPECT_TRUE(says(problem_with(kSdk, bytes_of(Version{kMajor, kMinor - 1, 0})), "built with ddprun SDK 0."));
  }
  EXPECT_TRUE(says(read_plugin_file(fixture("bad_no_descriptor")).problem, "not a ddprun plugin ... DDPRUN_MODEL"));
}

TEST_F(PluginFile, ADescriptorWithoutEndsOfTextsIsReadWithinItsArrays) {
  constexpr auto kKind = offsetof(PluginDescriptor, kind);
  const std::string endless(offsetof(PluginDescriptor, create) - kKind - 4, '\x01');
  const auto info = read_plugin_file(folder_.write("endless.so", stamped(kKind, endless)));
  EXPECT_EQ(info.kind, std::string(16, '?'));
  EXPECT_EQ(info.name, std::string(64, '?'));
  EXPECT_NE(info.problem, "");
}

TEST_F(PluginFile, ALibraryThatCannotBeLoadedGivesTheLinkersWords) {
  expect_refused(
      [](const std::string& name) {
        EXPECT_EQ(read_plugin_file(fixture(name)).problem, "");
        return error_of([&] { load_plugin_file(fixture(name)); });
      },
      {{"bad_missing_dependency", "libfixture_missing_library.so ... No such file ... `ldd "},
       {"bad_undefined_symbol", "function_that_nobody_defines"},
       {"bad_hidden_symbol", "hides its symbol ddprun_plugin"}});
}

std::string problem_of(const std::filesystem::path& file) {
  bool is_there = true;
  const auto problem = error_of([&] { is_there = read_elf_section(file, DDPRUN_DESCRIPTOR_SECTION, 64).has_value(); });
  return is_there ? problem : "no such section";
}

class ElfSection : public ::testing::Test {
 protected:
  std::string problem_with(size_t offset, const std::string& change) const {
    auto bytes = library_;
    return problem_of(folder_.write("changed.so", bytes.replace(offset, change.size(), change)));
  }

  const TemporaryFolder folder_;
  const std::string library_ = read_bytes(fixture("reads_all_option_types"));
};

TEST_F(ElfSection, IsReadUpToTheLimitOfLibrariesOfThisMachineAlone) {
  EXPECT_EQ(read_elf_section(fixture("reads_all_option_types"), DDPRUN_DESCRIPTOR_SECTION, 7), "DDPRUN1");
  EXPECT_EQ(read_elf_section(fixture("reads_all_option_types"), ".no_such_section", 7), std::nullopt);
  for (const auto& [problem, words] :
       {std::pair(problem_of(folder_.path() / "absent.so"), "No such file"),
        {problem_of(folder_.path()), "not a file"},
        {problem_of(folder_.write("empty.so", "")), "empty"},
        {problem_of(folder_.write("text.so", std::string(200, 'x'))), "not a shared library"},
        {problem_with(EI_CLASS, {ELFCLASS32}), "32-bit machine"},
        {problem_with(EI_DATA, {ELFDATA2MSB}), "big-endian machine"},
        {problem_with(offsetof(Elf64_Ehdr, e_type), {ET_REL}), "not a shared library"},
        {problem_with(offsetof(Elf64_Ehdr, e_machine), {EM_RISCV - 256}), "another processor"},
        {problem_with(offsetof(Elf64_Ehdr, e_shoff) + 6, {1}), "damaged or cut off"},
        {problem_with(offsetof(Elf64_Ehdr, e_shnum), std::string(2, '\0')), "no such section"}})
    EXPECT_TRUE(says(problem, words));
}

TEST_F(ElfSection, EveryTruncationIsRefused) {
  for (size_t cut = 0; cut < 300; ++cut) {
    const auto length = cut < 200 ? library_.size() * cut / 200 : cut - 200;
    const auto file = folder_.write("cut.so", library_.substr(0, length));
    EXPECT_NE(read_plugin_file(file).problem, "") << length << " bytes";
    EXPECT_TRUE(cut < 200 || !problem_of(file).empty()) << length << " bytes";
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

// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_file.h"

#include "plugin_host/fixture_files.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>

#include <array>
#include <cstring>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string problem_of_file(const std::string& name) { return read_plugin_file(fixture(name)).problem; }

std::string error_of_loading(const std::string& name) try {
  EXPECT_EQ(problem_of_file(name), "");
  load_plugin_file(fixture(name));
  return "";
} catch (const UserError& error) {
  return error.what();
}

TEST(PluginFile, TellsTheDescriptorOfAPlugin) {
  const auto info = read_plugin_file(fixture("reads_all_option_types"));
  EXPECT_EQ(info.problem, "");
  EXPECT_EQ(info.kind, "logger");
  EXPECT_EQ(info.name, "reads_all_option_types");
  EXPECT_EQ(info.help, "a logger that has an option of each type");
  EXPECT_EQ(info.sdk_version, DDPRUN_VERSION);
  EXPECT_EQ(info.torch_version, TORCH_VERSION);
  EXPECT_EQ(info.compiler, __VERSION__);
}

TEST(PluginFile, EachFlawHasItsOwnTextThatNamesBothSidesAndTheCure) {
  EXPECT_THAT(problem_of_file("bad_no_descriptor"), AllOf(HasSubstr("not a ddprun plugin"), HasSubstr("DDPRUN_MODEL")));
  EXPECT_THAT(problem_of_file("bad_magic"), AllOf(HasSubstr("DDPRUN9"), HasSubstr("DDPRUN1;"), HasSubstr("rebuild")));
  EXPECT_THAT(problem_of_file("bad_descriptor_size"),
              AllOf(HasSubstr(std::to_string(sizeof(PluginDescriptor) + 8) + " bytes"), HasSubstr("rebuild")));
  EXPECT_THAT(problem_of_file("bad_sdk_version"),
              AllOf(HasSubstr("built with ddprun SDK 0."), HasSubstr("this ddprun with ddprun SDK " DDPRUN_VERSION)));
  EXPECT_THAT(
      problem_of_file("bad_torch_version"),
      AllOf(HasSubstr("built with LibTorch 1.13.1"), HasSubstr("with LibTorch " TORCH_VERSION), HasSubstr("rebuild")));
  EXPECT_THAT(problem_of_file("bad_abi"), AllOf(HasSubstr("_GLIBCXX_USE_CXX11_ABI=0"),
                                                HasSubstr("rebuild the plugin with -D_GLIBCXX_USE_CXX11_ABI=1")));
  EXPECT_THAT(problem_of_file("bad_stdlib"), AllOf(HasSubstr("standard library libc++"), HasSubstr("libstdc++;")));
  EXPECT_THAT(problem_of_file("bad_kind"),
              AllOf(HasSubstr("\"sampler\""), HasSubstr("model, dataset, optimizer, objective, callback and logger")));
}

TEST(PluginFile, AFlawedDescriptorStillTellsTheName) {
  EXPECT_EQ(read_plugin_file(fixture("bad_sdk_version")).name, "bad_sdk_version");
}

TEST(PluginFile, AnSdkOfTheSameMinorVersionFitsAndAnotherIsRefusedWithBothVersionsNamed) {
  const TemporaryFolder folder;
  auto bytes = file_bytes(fixture("reads_all_option_types"));
  const auto problem_of_sdk = [&](std::array<uint32_t, 3> version) {
    std::memcpy(&bytes[bytes.find("DDPRUN1") + offsetof(PluginDescriptor, sdk_version)], &version, sizeof version);
    return read_plugin_file(folder.write("stamped.so", bytes)).problem;
  };
  constexpr uint32_t kMajor = DDPRUN_VERSION_MAJOR, kMinor = DDPRUN_VERSION_MINOR, kPatch = DDPRUN_VERSION_PATCH;
  EXPECT_EQ(problem_of_sdk({kMajor, kMinor, kPatch + 7}), "");
  for (const std::array other : {std::array{kMajor, kMinor + 1, kPatch}, std::array{kMajor + 1, kMinor, kPatch}}) {
    const auto named = std::to_string(other[0]) + "." + std::to_string(other[1]) + "." + std::to_string(other[2]);
    EXPECT_EQ(problem_of_sdk(other), "built with ddprun SDK " + named +
                                         ", but this ddprun with ddprun SDK " DDPRUN_VERSION
                                         "; rebuild the plugin with the SDK of this ddprun");
  }
  if constexpr (kMajor == 0 && kMinor > 0) {  // an older one, which from 1.0 on works
    EXPECT_THAT(problem_of_sdk({kMajor, kMinor - 1, 0}), HasSubstr("built with ddprun SDK 0."));
  }
}

TEST(PluginFile, LibTorchOfTheSameMinorVersionFits) {
  const TemporaryFolder folder;
  auto bytes = file_bytes(fixture("reads_all_option_types"));
  const auto at = bytes.find("DDPRUN1") + offsetof(PluginDescriptor, torch_version);
  const std::string torch = TORCH_VERSION;
  bytes.replace(at + torch.rfind('.'), 2, ".9");
  EXPECT_EQ(read_plugin_file(folder.write("patched.so", bytes)).problem, "");
  bytes.replace(at + torch.rfind('.'), 2, "5.");
  EXPECT_THAT(read_plugin_file(folder.write("other.so", bytes)).problem, HasSubstr("built with LibTorch "));
}

TEST(PluginFile, ADescriptorWithoutEndsOfTextsIsReadWithinItsArrays) {
  const TemporaryFolder folder;
  auto bytes = file_bytes(fixture("reads_all_option_types"));
  const auto at = bytes.find("DDPRUN1");
  bytes.replace(at + offsetof(PluginDescriptor, kind),
                offsetof(PluginDescriptor, create) - offsetof(PluginDescriptor, kind) - 4,
                offsetof(PluginDescriptor, create) - offsetof(PluginDescriptor, kind) - 4, '\x01');
  const auto info = read_plugin_file(folder.write("endless.so", bytes));
  EXPECT_EQ(info.kind, std::string(16, '?'));
  EXPECT_EQ(info.name, std::string(64, '?'));
  EXPECT_NE(info.problem, "");
}

TEST(PluginFile, ALibraryThatCannotBeLoadedGivesTheLinkersWords) {
  EXPECT_THAT(error_of_loading("bad_missing_dependency"),
              AllOf(HasSubstr("libfixture_missing_library.so"), HasSubstr("No such file"), HasSubstr("`ldd ")));
  EXPECT_THAT(error_of_loading("bad_undefined_symbol"), HasSubstr("function_that_nobody_defines"));
  EXPECT_THAT(error_of_loading("bad_hidden_symbol"), HasSubstr("hides its symbol ddprun_plugin"));
}

}  // namespace
}  // namespace ddprun

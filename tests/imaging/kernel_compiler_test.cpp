// SPDX-License-Identifier: MIT
#include "imaging/kernel_compiler.h"

#include "support/error_of.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace ddprun {
namespace {

// Returns the folders of this process's libraries whose names begin with this.
std::set<std::filesystem::path> folders_of(const std::string& beginning) {
  std::set<std::filesystem::path> folders;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::filesystem::path file = line.substr(std::min(line.find('/'), line.size()));
    if (file.filename().string().starts_with(beginning)) folders.insert(file.parent_path());
  }
  return folders;
}

TEST(KernelCompiler, CompilesForEachGenerationOfGpus) {
  for (const auto* architecture : {"sm_80", "sm_90", "sm_100"}) {
    for (const auto& [source, name] :
         {std::pair(kImageKernel, "make_images_float"), {kNumberKernels, "pack_numbers"}}) {
      const auto code = compile_kernels(source, architecture);
      EXPECT_THAT(code, testing::StartsWith("\x7F"
                                            "ELF"))
          << architecture;
      EXPECT_THAT(code, testing::HasSubstr(name)) << architecture;
    }
  }
}

// A machine without a CUDA toolkit has no others.
TEST(KernelCompiler, HasItsPartsFromOnePlace) {
  load_kernel_compiler();
  compile_kernels(kImageKernel, "sm_90");
  EXPECT_EQ(folders_of("libnvrtc.so").size(), 1);
  EXPECT_EQ(folders_of("libnvrtc-builtins"), folders_of("libnvrtc.so"));
}

TEST(KernelCompiler, ReportsAnUnknownGpu) {
  const auto error = error_of([&] { compile_kernels(kImageKernel, "sm_1"); });
  EXPECT_THAT(error, testing::HasSubstr("sm_1"));
}

}  // namespace
}  // namespace ddprun

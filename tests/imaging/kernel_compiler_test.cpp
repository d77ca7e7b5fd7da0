// SPDX-License-Identifier: MIT
#include "imaging/kernel_compiler.h"

#include <ddprun/error.h>
#include <gmock/gmock.h>

namespace ddprun {
namespace {

TEST(KernelCompiler, CompilesForEachGenerationOfGpus) {
  for (const auto* architecture : {"sm_80", "sm_90", "sm_100"}) {
    const auto code = compile_image_kernel(architecture);
    EXPECT_THAT(code, testing::StartsWith("\x7F"
                                          "ELF"))
        << architecture;
    EXPECT_THAT(code, testing::HasSubstr("make_images_float")) << architecture;
    EXPECT_THAT(code, testing::HasSubstr("make_images_bfloat16")) << architecture;
  }
}

TEST(KernelCompiler, TellsOfAnUnknownGpu) {
  try {
    compile_image_kernel("sm_1");
    FAIL() << "sm_1 is no GPU";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("sm_1"));
  }
}

}  // namespace
}  // namespace ddprun

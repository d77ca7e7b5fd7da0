// SPDX-License-Identifier: MIT
#include "base/call_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace ddprun {
namespace {

using testing::ElementsAre;

TEST(CallLines, AreToldFromOtherLines) {
  EXPECT_TRUE(is_call_line("/tmp/a (b)/net.so(+0x5a80)[0x7f44636bca80]"));
  EXPECT_TRUE(is_call_line("/usr/lib/libx.so.6(abort+0x12)[0x7f44636bca80]"));
  for (const auto* line :
       {"", "loss (0.5+0x) [a]", "net.so(+0x5a80)", "f(+0xZZ)[0x1]", ")([", "rank 0: SIGSEGV in step() of model"})
    EXPECT_FALSE(is_call_line(line)) << line;
}

TEST(CallLines, NamesAreDemangledAndThoseOfTheProgramLeftOut) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  EXPECT_THAT(with_named_calls({"before", "SIGSEGV; the calls that led there:",
                                "/x/libddprun_sdk.so(_ZN6ddprun5Model4stepERKNS_5BatchERKNS_9ObjectiveE+0x3c)[0x7f]",
                                program + "(+0x10)[0x7f]", "/nowhere/net.so(+0x5a80)[0x7f44636bca80]", "after"}),
              ElementsAre("before", "SIGSEGV; the calls that led there:",
                          "  ddprun::Model::step(ddprun::Batch const&, ddprun::Objective const&)",
                          "  /nowhere/net.so(+0x5a80)[0x7f44636bca80]", "after"));
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "rendezvous/simulated_run.h"
#include "support/repetitions.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Simulation, EveryLauncherEndsNoTwoAttemptsRunAtOnceAndTheReportNamesTheCause) {
  const auto [first, end] = testing::seeds(2000);
  for (auto seed = first; seed < end; ++seed) {
    testing::SimulatedRun run(static_cast<uint64_t>(seed));
    const auto broken = run.play();
    std::string text;
    for (const auto& line : broken) text += "  " + line + "\n";
    for (const auto& line : run.story()) text += "    " + line + "\n";
    ASSERT_TRUE(broken.empty()) << "DDPRUN_SEED=" << seed << "\n" << text;
  }
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "rendezvous/simulated_run.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ddprun {
namespace {

int64_t number(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

// DDPRUN_SEED=N DDPRUN_SIMULATIONS=1 plays one again.
TEST(Simulation, EveryLauncherEndsNoTwoAttemptsRunAtOnceAndTheReportNamesTheCause) {
  const auto first = number("DDPRUN_SEED", 1), count = number("DDPRUN_SIMULATIONS", 2000);
  for (int64_t seed = first; seed < first + count; ++seed) {
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

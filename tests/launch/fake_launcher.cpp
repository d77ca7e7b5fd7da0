// SPDX-License-Identifier: MIT
// fake_launcher RUN_DIR WORKERS GRACE_SECONDS PROGRAM [ARGUMENT...]: launch_workers() as a process of its own. Ends as
// ddprun does: the report on standard error, the exit code.
#include "base/clock.h"
#include "launch/launcher.h"

#include <ddprun/error.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) try {
  ddprun::LaunchPlan plan;
  plan.workers = std::atoi(argv[2]);
  plan.place.attempt = {.number = 3, .world_size = plan.workers, .run_dir = argv[1]};
  plan.place.local_world_size = plan.workers;
  plan.place.started_at = 1234567890.25;
  plan.grace_seconds = plan.failure_grace_seconds = std::atof(argv[3]);
  plan.command.assign(argv + 4, argv + argc);
  plan.environment = {{"PLAN_VARIABLE", "from the plan"}, {"RANK", "not for the plan to say"}};
  if (const char* seconds = std::getenv("HANG_SECONDS")) plan.hang_seconds = std::atof(seconds);
  if (const char* seconds = std::getenv("TIMEOUT_SECONDS")) plan.timeout_seconds = std::atof(seconds);
  if (const char* seconds = std::getenv("ENDS_IN_SECONDS")) plan.ends_at = ddprun::wall_seconds() + std::atof(seconds);
  const auto result = ddprun::launch_workers(plan);
  std::fprintf(stderr, "%sstop_requested=%d\n", result.report.c_str(), result.stop_requested);
  return result.exit_code;
} catch (const ddprun::UserError& error) {
  std::fprintf(stderr, "user error: %s\n", error.what());
  return ddprun::kExitUsage;
}

// SPDX-License-Identifier: MIT
#include "agent/error_file.h"

#include "base/clock.h"
#include "support/temporary_folder.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <vector>

namespace ddprun {
namespace {

// torchrun compares these times over the ranks of all machines: they are the wall clock's.
double reported_time(const std::vector<WorkerEnd>& workers) {
  const TestFolder folder;
  write_error_file(folder / "error.json", judge_ends({.workers = workers}), "");
  const auto json = nlohmann::json::parse(read_bytes(folder / "error.json"));
  return std::stod(json["message"]["extraInfo"]["timestamp"].get<std::string>());
}

TEST(ErrorFile, HasTheWallTimeOfTheFailure) {
  const double now = steady_seconds();
  WorkerEnd worker{.exit_code = kExitFailed, .time = now};
  worker.failure = WorkerFailure{.time = now - 100, .message = "bad"};
  EXPECT_NEAR(reported_time({worker}), wall_seconds() - 100, 10);
  const WorkerEnd well{.exit_code = kExitDone, .time = now}, killed{.rank = 1, .signal = SIGKILL, .time = now - 300};
  EXPECT_NEAR(reported_time({well, killed}), wall_seconds() - 300, 10) << "not that of the first worker";
}

TEST(ErrorFile, OfAnEnginesRanksOnAMachineOneIsTheFirst) {
  const auto is_first = [](const std::map<std::string, std::string>& variables) {
    return is_first_of_its_node(Environment(variables));
  };
  EXPECT_TRUE(is_first({}));
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    EXPECT_TRUE(is_first({{name, "0"}})) << name;
    EXPECT_FALSE(is_first({{name, "1"}})) << name;
  }
  EXPECT_FALSE(is_first({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"SLURM_LOCALID", "0"}}))
      << "mpirun within a task of srun";
}

}  // namespace
}  // namespace ddprun

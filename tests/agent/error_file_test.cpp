// SPDX-License-Identifier: MIT
#include "agent/error_file.h"

#include "base/clock.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <fstream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// torchrun compares these times over the ranks of all machines: they are the wall clock's.
TEST(ErrorFile, HasTheWallTimeOfTheFailure) {
  auto pattern = (fs::temp_directory_path() / "error_file-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  WorkerEnd worker{.exit_code = kExitFailed, .time = steady_seconds()};
  worker.failure = WorkerFailure{.time = worker.time - 100, .message = "bad"};
  write_error_file(folder / "error.json", {.workers = {worker}}, "");
  const auto json = nlohmann::json::parse(std::ifstream(folder / "error.json"));
  const auto told = std::stod(json["message"]["extraInfo"]["timestamp"].get<std::string>());
  EXPECT_NEAR(told, wall_seconds() - 100, 10);
  fs::remove_all(folder);
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

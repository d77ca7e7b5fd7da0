// SPDX-License-Identifier: MIT
#include "cluster/placement_text.h"

#include "cluster/environments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace ddprun {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;

const Installation kInstallation{.ddprun = "0.1.0", .libtorch = "2.11.0", .gpus = 1, .cores = 4};

std::string text(const Variables& variables, const LaunchFlags& flags = {}) {
  return placement_text(place(variables, flags), kInstallation);
}

TEST(PlacementText, SaysWhoStartedWhatAndWhy) {
  const auto page = text(with(torchrun(), {{"NODE_RANK", "1"}}));
  EXPECT_THAT(page, HasSubstr("ddprun 0.1.0, LibTorch 2.11.0; here 1 GPU, 4 CPU cores\n"));
  EXPECT_THAT(page, HasSubstr("started by    torchrun: one process per rank\n"));
  EXPECT_THAT(page, HasSubstr("this is       rank 2 of 4; on this node 0 of 2\n"));
  EXPECT_THAT(page, HasSubstr("rendezvous    node1:29400, a store of torchrun or torch.distributed\n"));
  EXPECT_THAT(page, HasSubstr("job           mnist-7, restarted 1 time\n"));
  EXPECT_THAT(page, HasSubstr("  RANK=2\n      the rank of this process\n"));
  EXPECT_THAT(page, HasSubstr("set, but ignored\n"));
  EXPECT_THAT(page, HasSubstr("  NODE_RANK=1\n      torchrun takes precedence\n"));
}

TEST(PlacementText, OfOneCommandAloneIsShort) {
  const auto page = text({});
  EXPECT_THAT(page, HasSubstr("started by    nobody: this command alone\n"));
  EXPECT_THAT(page, HasSubstr("rendezvous    none: one node\n"));
  EXPECT_THAT(page, Not(HasSubstr("what counted")));
  EXPECT_THAT(page, Not(HasSubstr("ignored")));
}

TEST(PlacementText, OfNodesSaysWhichAndTheirWorkers) {
  const auto page =
      text({}, {.nnodes = Setting{"--nnodes", "1:3"}, .rdzv_endpoint = Setting{"--rdzv-endpoint", "[::1]"}});
  EXPECT_THAT(page, HasSubstr("this is       a node of 1 to 3\n"));
  EXPECT_THAT(page, HasSubstr("its workers   set by launch.workers of the experiment\n"));
  EXPECT_THAT(page, HasSubstr("rendezvous    [::1]:29400\n"));
  EXPECT_THAT(text(slurm_nodes()), HasSubstr("this is       node 1 of 2\n"));
}

TEST(PlacementText, FitsEightyColumnsAndDrawsNothing) {
  const auto long_value = std::string(200, 'x') + "\x1b[2J\n" + std::string(200, 'y');
  const auto page =
      text(with(torchrun(), {{"TORCHELASTIC_ERROR_FILE", long_value}, {"TORCHELASTIC_RUN_ID", long_value}}));
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80) << line;
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
}

TEST(PlacementText, NoMeaningIsCutOnTheWay) {
  for (const auto& variables : {torchrun(), slurm_tasks(), slurm_nodes(), openmpi(), kubeflow(),
                                with(slurm_nodes(), torchrun()), with(slurm_tasks(), {{"SLURM_STEP_ID", ""}})}) {
    EXPECT_THAT(text(variables), Not(HasSubstr("...")));
  }
}

// Of the place itself each row of placements_test.cpp has some.
TEST(PlacementJson, HasTheInstallationAndSurvivesBytesThatAreNoText) {
  const auto placement = place(with(torchrun(), {{"TORCHELASTIC_RUN_ID", "\xff\xfe"}}));
  const auto json = nlohmann::json::parse(placement_json(placement, kInstallation));
  EXPECT_EQ(json["gpus"], 1);
  EXPECT_EQ(json["libtorch"], "2.11.0");
  EXPECT_EQ(json["max_restarts"], nullptr);
}

}  // namespace
}  // namespace ddprun

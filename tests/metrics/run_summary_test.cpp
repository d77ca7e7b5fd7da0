// SPDX-License-Identifier: MIT
#include "metrics/run_summary.h"

#include "support/temporary_folder.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace ddprun {
namespace {

class RunSummaryFile : public FolderTest {};

TEST_F(RunSummaryFile, SaysWhatARunThatEndedWellLacks) {
  EXPECT_TRUE(read_missing(folder_).empty());
  const std::vector<LoggerTrouble> troubles{{"csv", 0, "a line"}, {"jsonl", 12, "No space left on device"}};
  write_summary(folder_, {.end = {.status = "completed"}, .test_error = "2.jpg is damaged", .loggers = troubles});
  EXPECT_EQ(read_run_end(folder_).status, "completed");
  EXPECT_EQ(read_troubles(folder_), troubles);
  EXPECT_THAT(read_missing(folder_),
              ::testing::ElementsAre("the test failed: 2.jpg is damaged",
                                     "logger jsonl lost 12 rows and tables: No space left on device"));
}

TEST_F(RunSummaryFile, NotesWhatIsUnsentBesideAllElse) {
  note_unsent(folder_, {{"wandb", "the server is away", "tools/follow run"}});  // there is no file
  write_summary(folder_, {.end = {.status = "completed", .steps = 3}});
  note_unsent(folder_, {{"wandb", "the server is away", "tools/follow run"}});
  EXPECT_EQ(read_run_end(folder_).steps, 3);
  EXPECT_TRUE(read_missing(folder_).empty());  // nothing is lost
  const auto json = nlohmann::json::parse(std::ifstream(folder_ / "summary.json"));
  EXPECT_EQ(json["unsent"]["wandb"]["command"], "tools/follow run");
}

TEST_F(RunSummaryFile, HasTheHistoryOfTheFollowedMetricAsColumns) {
  const auto written = [&](const MetricHistory& history) {
    write_summary(folder_, {.end = {.status = "completed"}, .history = history});
    return nlohmann::json::parse(std::ifstream(folder_ / "summary.json"));
  };
  EXPECT_EQ(written({})["history"], nlohmann::json({{"step", nlohmann::json::array()}}));
  const auto json = written({.metric = "val/loss", .values = {{10, 0.5}, {20, std::nan("")}}, .left_out = 7});
  EXPECT_EQ(json["history"], nlohmann::json({{"step", {10, 20}}, {"val/loss", {0.5, nullptr}}}));
  EXPECT_EQ(json["history_left_out"], 7);
}

TEST_F(RunSummaryFile, AnUnreadableOneIsNotTakenForNone) {
  EXPECT_EQ(read_run_end(folder_).status, "");
  std::filesystem::create_directory(folder_ / "summary.json");
  EXPECT_THROW(read_run_end(folder_), UserError);
}

TEST(RunSummary, TroublesOfLaterAttemptsAreAdded) {
  EXPECT_EQ(together({{"jsonl", 2, "full"}}, {{"jsonl", 3, "stale"}, {"csv", 1, "full"}}),
            (std::vector<LoggerTrouble>{{"jsonl", 5, "stale"}, {"csv", 1, "full"}}));
}

}  // namespace
}  // namespace ddprun

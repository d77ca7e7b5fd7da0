// SPDX-License-Identifier: MIT
#include "runs/run_state.h"

#include "launch/run_folder.h"
#include "runs/config_lines.h"
#include "runs/run_files.h"

#include <optional>
#include <tuple>

namespace ddprun {
namespace {

constexpr const char* kRows =
    R"({"time":1000,"attempt":0,"split":"val","epoch":1,"step":10,"loss":0.5,"accuracy":0.8})"
    "\n"
    R"({"time":2000,"attempt":0,"split":"val","epoch":2,"step":20,"loss":0.6,"accuracy":0.7})"
    "\n"
    R"({"time":2005,"attempt":0,"split":"train","epoch":3,"step":25,"loss":0.1,"accuracy":0.99})"
    "\n{\"time\":20";

class RunStates : public RunFiles {
 protected:
  void summarize(const std::string& status, int attempt) const {
    write("run/summary.json",
          R"({"status":")" + status + R"(","stop_reason":"why","steps":30,"epochs":3.0,"world_size":4,"attempt":)" +
              std::to_string(attempt) + R"(,"total_seconds":12.5,"best":{"val/loss":0.5,"val/accuracy":0.9}})");
  }
};

TEST_F(RunStates, OfAFinishedRunAreAsItsSummarySays) {
  const auto run = make_run("run");
  summarize("completed", 0);
  const auto state = read_run_state(run);
  EXPECT_EQ(state.name, "toy");
  EXPECT_EQ(state.status, RunStatus::kCompleted);
  EXPECT_EQ(state.reason, "why");
  EXPECT_EQ(state.steps, 30);
  EXPECT_EQ(state.epochs, 3);
  EXPECT_EQ(state.workers, 4);
  EXPECT_EQ(state.seconds, 12.5);
  EXPECT_EQ(state.best_name, "val/accuracy");
  EXPECT_EQ(state.best, 0.9);
}

TEST_F(RunStates, OfARunThatNobodyEndedComeFromItsRows) {
  const auto run = make_run("run");
  write("run/metrics.jsonl", kRows);
  write("run/logs/rank_0.log", "");
  write("run/logs/rank_1.log", "");
  const auto state = read_run_state(run);
  EXPECT_EQ(state.status, RunStatus::kInterrupted);
  EXPECT_EQ(state.steps, 25);
  EXPECT_EQ(state.epochs, 3);
  EXPECT_EQ(state.workers, 2);
  EXPECT_EQ(state.best, 0.8);
}

TEST_F(RunStates, AreThoseOfACopyToo) {
  const auto run = make_run("run");
  summarize("preempted", 1);
  EXPECT_EQ(read_run_state(run).status, RunStatus::kPreempted) << "without the count of its attempts";
  write("run/.attempts", "7\n");
  write("run/summary.json", R"({"status":"stopped_early"})");
  EXPECT_EQ(read_run_state(run).status, RunStatus::kStoppedEarly) << "of whichever attempt it is";
  write("run/kept_elsewhere.txt", "node1:/scratch/run\nThere the first node keeps the run.\n");
  EXPECT_EQ(read_run_state(run).status, RunStatus::kElsewhere);
  EXPECT_NE(read_run_state(run).reason.find("kept at node1:/scratch/run;"), std::string::npos);
}

TEST_F(RunStates, SayTheEndOfARunWhoseWorkersDidNot) {
  const auto run = make_run("run", "name: toy\ncheckpoint: {monitor: val/loss}\n");
  write("run/run.json", R"({"steps_per_epoch":10,"nodes":2})");
  write("run/metrics.jsonl",
        R"({"time":1,"split":"train","epoch":1,"step":10,"samples":640,"loss":0.9,"lr":0.1,"samples_per_second":320})"
        "\n"
        R"({"time":2,"split":"val","epoch":1,"step":10,"samples":640,"loss":0.5,"accuracy":0.8})"
        "\n"
        R"({"time":4,"split":"train","epoch":2,"step":15,"samples":960,"loss":0.7,"lr":0.1,"samples_per_second":160})"
        "\n"
        R"({"time":5,"split":"val","epoch":2,"step":15,"samples":960,"loss":0.6,"accuracy":0.9})"
        "\n");
  const auto [end, history] = recorded_end(run);
  EXPECT_EQ(end.status, "interrupted");
  EXPECT_EQ(end.steps, 15);
  EXPECT_EQ(end.epochs, 1.5);
  EXPECT_EQ(end.samples, 960);
  EXPECT_EQ(end.train_seconds, 2 + 2);
  EXPECT_EQ(end.samples_per_second, 240);
  EXPECT_EQ(end.nodes, 2);
  const std::vector<std::pair<std::string, double>> best{{"val/loss", 0.5}, {"val/accuracy", 0.8}};
  EXPECT_EQ(end.best, best);
  EXPECT_EQ(end.metrics.front(), std::pair(std::string("train/loss"), 0.7));
  EXPECT_EQ(end.metrics.size(), 3U);
  EXPECT_EQ(history.metric, "val/loss");
  EXPECT_EQ(history.values, (std::vector<std::pair<int64_t, double>>{{10, 0.5}, {15, 0.6}}));
}

TEST_F(RunStates, LeaveOutOfTheHistoryWhatALaterAttemptMeasuredAgain) {
  const auto run = make_run("run", "name: toy\ncheckpoint: {monitor: val/loss}\n");
  write("run/metrics.jsonl", R"({"attempt":0,"split":"val","step":10,"loss":3}
{"attempt":0,"split":"val","step":20,"loss":2}
{"attempt":0,"split":"val","step":30,"loss":1}
{"attempt":1,"split":"train","step":12,"loss":3}
{"attempt":1,"split":"val","step":25,"loss":1.5}
)");
  const auto history = recorded_end(run).history;
  EXPECT_EQ(history.values, (std::vector<std::pair<int64_t, double>>{{10, 3}, {25, 1.5}}));
}

TEST_F(RunStates, TakeForBestWhatTheExperimentDoes) {
  const std::vector<std::tuple<std::string, std::string, bool>> cases = {
      {"name: toy\n", "val/accuracy", true},
      {"objective: mse\n", "val/loss", false},
      {"objective: {name: l1}\n", "val/loss", false},
      {"checkpoint: {monitor: val/perplexity}\n", "val/perplexity", false},
      {"checkpoint: {monitor: val/loss, mode: max}\n", "val/loss", true},
      {"checkpoint: null\n", "val/accuracy", true}};
  for (const auto& [config, metric, maximize] : cases) {
    std::vector<std::string> problems;
    const auto goal = goal_of(read_config(write("config.yaml", config), problems).value());
    EXPECT_EQ(std::tuple(goal.metric, goal.maximize), std::tuple(metric, maximize)) << config;
  }
  const auto run = make_run("run", "name: toy\ncheckpoint:\n  monitor: val/loss\n");
  write("run/metrics.jsonl", kRows);
  EXPECT_EQ(read_run_state(run).best_name, "val/loss");
  EXPECT_EQ(read_run_state(run).best, 0.5);
}

TEST_F(RunStates, OfALockedFolderWithoutASummaryAreRunning) {
  std::optional<RunFolder> folder = RunFolder::create("toy", folder_ / "run");
  write("run/config.yaml", "name: toy\n");
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kRunning);
  folder.reset();
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kInterrupted);
}

TEST_F(RunStates, DoNotDisturbWhoStartsTheRun) {
  const auto run = make_run("run");
  write("run/.lock", "process 1 on elsewhere");
  read_run_state(run);
  EXPECT_NO_THROW(RunFolder::resume(run));
}

TEST_F(RunStates, OfARunThatContinuesAreNotThoseOfItsLastEnd) {
  std::optional<RunFolder> folder = RunFolder::create("toy", folder_ / "run");
  write("run/config.yaml", "name: toy\n");
  folder->begin_attempt();
  summarize("preempted", 0);
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kPreempted)
      << "while the lock is still held at the end of a run";
  folder->begin_attempt();
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kRunning);
  folder.reset();
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kInterrupted);
}

TEST_F(RunStates, StayAsTheyWereWhereAnAttemptToContinueIsRefused) {
  std::optional<RunFolder> folder = RunFolder::create("toy", folder_ / "run");
  const auto begin = [&] {
    folder->begin_attempt();
    folder->record({.config_yaml = "name: toy\n"});
  };
  begin();
  summarize("completed", 0);
  begin();
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kRunning);
  folder->drop_waiting_record();
  folder.reset();
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kCompleted);

  folder = RunFolder::resume(folder_ / "run");
  begin();
  commit_record(folder_ / "run", 2);
  folder.reset();
  EXPECT_EQ(read_run_state(folder_ / "run").status, RunStatus::kInterrupted) << "since it resumed, and never ended";
}

TEST_F(RunStates, BeginWithTheFirstAttempt) {
  const auto run = make_run("run");
  write("run/environment.json", R"({"time":"2026-11-20T13:00:00+0100"})");
  EXPECT_EQ(read_run_state(run).started, 1795176000);
  write("run/environment.attempt_0.json", R"({"time":"2026-11-20T11:00:00+0000"})");
  EXPECT_EQ(read_run_state(run).started, 1795172400);
}

TEST_F(RunStates, SurviveFilesThatAreBroken) {
  const auto run = make_run("run", "name: [\n");
  for (const char* name : {"summary.json", "environment.json", "metrics.jsonl", ".attempts"}) {
    write(std::filesystem::path("run") / name, "[1, {");
    EXPECT_EQ(read_run_state(run).status, RunStatus::kInterrupted) << name;
  }
  write("run/summary.json", R"({"status":"completed","best":7,"steps":"many","epochs":null,"world_size":{}})");
  EXPECT_EQ(read_run_state(run).status, RunStatus::kCompleted);
}

}  // namespace
}  // namespace ddprun

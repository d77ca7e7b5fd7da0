// SPDX-License-Identifier: MIT
// What one process could not send, another does: uploads, resumed attempts, processes that were killed.
#include "mlflow_fixture.h"

namespace ddprun::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(MlflowLogger, UploadSendsWhatIsLeftAndOnlyOnce) {
  server_.go_away();
  const auto logger = started();
  log(*logger, 1);
  logger->finish({.status = "completed"});
  const auto text = told();
  EXPECT_EQ(warnings(text), 2) << text;  // that it is away, and that something is left
  EXPECT_THAT(text, HasSubstr("`ddprun upload " + run_dir_.string() + "` sends the rest"));
  EXPECT_THAT(problem_of_upload(*make(), run_dir_), HasSubstr("not sent: 1 rows, "));
  server_.come_back();
  const auto uploading = make();
  uploading->upload(run_dir_, {.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1));
  EXPECT_EQ(server_.run().status, "FINISHED");
  const auto asked = server_.requests.size();
  uploading->upload(run_dir_, {.status = "completed"});
  EXPECT_EQ(server_.requests.size(), asked);
}

TEST_F(MlflowLogger, UploadLeavesARunAloneThatGoesOn) {
  const auto logger = started();
  log(*logger, 9);
  ASSERT_TRUE(has_step(9));
  EXPECT_THAT(problem_of_upload(*make(), run_dir_), HasSubstr("another process is sending"));
}

TEST_F(MlflowLogger, UploadOfAKilledRunSaysThatItFailed) {
  {
    const auto logger = started();
    log(*logger, 9);
    ASSERT_TRUE(has_step(9));
  }
  EXPECT_EQ(server_.run().status, "RUNNING");
  make()->upload(run_dir_, {.status = "failed"});
  EXPECT_EQ(server_.run().status, "FAILED");
  EXPECT_EQ(server_.run().end_time, 9000);  // when it was last heard of
}

TEST_F(MlflowLogger, UploadOfARunThatFailedBeforeItLoggedSendsNothing) {
  make()->upload(folder_, {.status = "failed"});
  EXPECT_EQ(told(), "");
  EXPECT_FALSE(exists(folder_ / "mlflow"));
}

TEST_F(MlflowLogger, AResumedAttemptGoesOnInTheSameRun) {
  {
    const auto killed = started();
    for (int64_t step = 1; step <= 6; ++step) log(*killed, step);
    killed->finish({.status = "preempted"});
  }
  const auto resumed = started({.config_yaml = "optimizer: {lr: 0.2}\n", .attempt = 1, .resumed_step = 4});
  EXPECT_TRUE(server_.wait_for([&] { return server_.run().tags["ddprun.attempt"] == "1"; }));
  EXPECT_EQ(server_.run().status, "RUNNING");
  for (int64_t step = 5; step <= 8; ++step) log(*resumed, step);
  resumed->finish({.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(server_.run().status, "FINISHED");
  EXPECT_EQ(server_.run().params.at("optimizer.lr"), "0.1");
  EXPECT_EQ(server_.run().tags.at("ddprun.attempt_1.optimizer.lr"), "0.2");
  EXPECT_FALSE(exists(run_dir_ / "mlflow/refused.jsonl"));
}

// Killed between its last step and its end, the run trains that step again.
TEST_F(MlflowLogger, WhatWasBestIsToldOnceForAStep) {
  const RunEnd end{.status = "completed", .steps = 2, .best = {{"val/loss", 0.5}}};
  for (int64_t attempt = 0; attempt < 2; ++attempt) {
    const auto logger = started({.attempt = attempt, .resumed_step = attempt});
    log(*logger, attempt + 1);
    logger->finish(end);
  }
  make()->upload(run_dir_, {.status = "failed", .steps = 2, .best = end.best});
  const auto is_best = [](const auto& metric) { return metric["key"] == "best/val/loss"; };
  EXPECT_EQ(std::ranges::count_if(server_.run().metrics, is_best), 1);
  EXPECT_EQ(server_.run().status, "FAILED");
}

// A process that is killed after its request and before its note leaves the note of before.
TEST_F(MlflowLogger, AKillBetweenRequestAndNoteLosesNothing) {
  std::string note;
  {
    const auto killed = started();
    log(*killed, 1);
    ASSERT_TRUE(has_step(1));
    note = read(run_dir_ / "mlflow/sent.json");
    log(*killed, 2);
    ASSERT_TRUE(has_step(2));
  }
  write(run_dir_ / "mlflow/sent.json", note);
  started({.attempt = 1, .resumed_step = 2})->finish({.status = "completed"});
  EXPECT_EQ(steps().front(), 1);
  EXPECT_EQ(steps().back(), 2);
  EXPECT_LE(steps().size(), 4U);
}

TEST_F(MlflowLogger, ARunThatCouldNotBeNotedIsFoundAgain) {
  {
    const auto killed = started();
    ASSERT_TRUE(server_.wait_for([&] { return server_.runs.size() == 1; }));
  }
  std::filesystem::remove(run_dir_ / "mlflow/sent.json");
  const auto resumed = started({.attempt = 1});
  log(*resumed, 1);
  resumed->finish({.status = "completed"});
  EXPECT_EQ(server_.runs.size(), 1U);
  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(MlflowLogger, AnotherServerGetsTheWholeRun) {
  {
    const auto first = started();
    log(*first, 1);
    first->finish({.status = "completed"});
  }
  FakeMlflow other;
  options_.set("uri", Value::scalar(other.uri()));
  make()->upload(run_dir_, {.status = "completed"});
  EXPECT_EQ(other.run().metrics.size(), server_.run().metrics.size());
  EXPECT_EQ(other.run().status, "FINISHED");
}

TEST_F(MlflowLogger, RunsOfOneExperimentDoNotDisturbEachOther) {
  const auto first = started();
  run_dir_ = folder_ / "other";
  std::filesystem::create_directories(run_dir_);
  const auto second = started();
  log(*first, 1);
  log(*second, 2);
  first->finish({.status = "completed"});
  second->finish({.status = "failed"});
  ASSERT_EQ(server_.runs.size(), 2U);
  EXPECT_EQ(server_.experiments.size(), 1U);
  std::map<std::string, std::string> status;
  for (const auto& [id, run] : server_.runs) status[run.name] = run.status;
  EXPECT_EQ(status, (std::map<std::string, std::string>{{"run", "FINISHED"}, {"other", "FAILED"}}));
}

}  // namespace
}  // namespace ddprun::test

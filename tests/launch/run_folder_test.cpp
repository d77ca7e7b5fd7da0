// SPDX-License-Identifier: MIT
#include "launch/run_folder.h"

#include "launch/attempt.h"
#include "launch/event_log.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <ddprun/files.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <sstream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RunFolderTest : public FolderTest {
 protected:
  RunFolder create(const fs::path& run_dir = {}) { return RunFolder::create("mnist", run_dir, folder_ / "outputs"); }
  fs::path runs() const { return folder_ / "outputs" / "mnist"; }
  std::optional<fs::path> to_resume() const { return find_run_to_resume("mnist", folder_ / "outputs"); }
  std::string refused(const fs::path& run_dir) {
    return error_of([&] { create(run_dir); });
  }
  static std::string not_resumed(const fs::path& run_dir) {
    return error_of([&] { RunFolder::resume(run_dir); });
  }
  std::set<std::string> names(const fs::path& folder) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(RunFolderTest, IsNamedForItsTimeAndLatestPointsToIt) {
  const auto run = create();
  EXPECT_THAT(run.path().filename().string(), MatchesRegex("....-..-.._..-..-..(-.+)?"));
  EXPECT_TRUE(fs::is_directory(run.path() / "logs"));
  EXPECT_TRUE(fs::is_directory(run.path() / "checkpoints"));
  EXPECT_EQ(fs::canonical(runs() / "latest"), run.path());
}

TEST_F(RunFolderTest, ManyInOneSecondAreDistinct) {
  std::set<fs::path> paths;
  for (int i = 0; i < 25; ++i) paths.insert(create().path());
  EXPECT_EQ(paths.size(), 25U);
}

TEST_F(RunFolderTest, ExistingOneIsNeverOverwritten) {
  const auto dir = folder_ / "deep" / "mine";
  const auto first = create(dir).path();
  EXPECT_EQ(first, fs::canonical(dir));
  EXPECT_TRUE(says(refused(dir), "already exists ... ddprun resume"));
  EXPECT_TRUE(says(refused(dir / ""), "already exists"));
}

TEST_F(RunFolderTest, NameThatLeavesTheOutputsIsRefused) {
  for (const char* name : {"", "..", "../x", "a/b", ".hidden"}) {
    EXPECT_THROW(RunFolder::create(name, {}, folder_ / "outputs"), UserError) << name;
  }
}

TEST_F(RunFolderTest, APathThatIsNotUtf8IsRefusedBeforeItIsMade) {
  const auto path = folder_ / "r\xff";
  EXPECT_TRUE(says(refused(path), "is not UTF-8 text ... run.dir="));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(says(error_of([&] { RunFolder::create("mnist", {}, path); }), "is not UTF-8 text"));
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(RunFolderTest, SecondProcessIsReportedWhoHoldsIt) {
  auto run = create();
  run.record({.config_yaml = "a: 1\n"});
  EXPECT_TRUE(says(not_resumed(run.path()), "is in use by process " + std::to_string(::getpid())));
}

TEST_F(RunFolderTest, LockDiesWithItsProcess) {
  const auto dir = folder_ / "mine";
  const pid_t child = ::fork();
  if (child == 0) {
    auto run = create(dir);
    run.record({.config_yaml = "a: 1\n"});
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(RunFolder::resume(dir).path(), fs::canonical(dir));
}

TEST_F(RunFolderTest, ProgramsThatAreStartedDoNotHoldTheLock) {
  const auto dir = folder_ / "mine";
  pid_t sleeper = -1;
  {
    auto run = create(dir);
    run.record({.config_yaml = "a: 1\n"});
    sleeper = spawn({.command = {"/bin/sleep", "600"}});
  }
  EXPECT_NO_THROW(RunFolder::resume(dir));
  ::kill(sleeper, SIGKILL);
  ::waitpid(sleeper, nullptr, 0);
}

TEST_F(RunFolderTest, AttemptsAreNumberedOverResumptions) {
  const auto dir = folder_ / "mine";
  {
    auto run = create(dir);
    EXPECT_EQ(run.begin_attempt(), 0);
    run.record({.config_yaml = "a: 1\n"});
    EXPECT_EQ(run.begin_attempt(), 1);
  }
  auto run = RunFolder::resume(dir);
  EXPECT_EQ(run.begin_attempt(), 2);
}

TEST_F(RunFolderTest, OneThatNeverBeganLeavesNothing) {
  auto before = create();
  before.begin_attempt();
  EXPECT_FALSE(before.discard_if_unbegun());
  EXPECT_TRUE(fs::exists(before.path()));
  EXPECT_TRUE(create().discard_if_unbegun());
  EXPECT_EQ(names(runs()), (std::set<std::string>{before.path().filename(), "latest"}));
  EXPECT_EQ(fs::canonical(runs() / "latest"), before.path());
  auto named = create(folder_ / "named");
  EXPECT_TRUE(named.discard_if_unbegun());
  EXPECT_FALSE(fs::exists(folder_ / "named"));
}

// A copy of a run lacks the hidden files that say how many attempts there were.
TEST_F(RunFolderTest, OneThatWasThereBeforeIsNeverDiscarded) {
  const auto path = create().path();
  write(path / "config.yaml", "seed: 1\n");
  EXPECT_FALSE(RunFolder::resume(path).discard_if_unbegun());
  EXPECT_TRUE(fs::exists(path / "config.yaml"));
}

TEST_F(RunFolderTest, TheFirstOfAllLeavesNoLinkEither) {
  EXPECT_TRUE(create().discard_if_unbegun());
  EXPECT_TRUE(names(runs()).empty());
}

TEST_F(RunFolderTest, ConfigOfAnEarlierAttemptIsKeptWhereItDiffers) {
  auto run = create();
  run.begin_attempt();
  run.record({.config_yaml = "a: 1\n", .overrides = {"a=1"}});
  run.begin_attempt();
  run.record({.config_yaml = "a: 1\n", .overrides = {"a=1"}});
  commit_record(run.path(), 1);
  EXPECT_FALSE(fs::exists(run.path() / "config.attempt_0.yaml"));
  const int attempt = run.begin_attempt();
  run.record({.config_yaml = "a: 2\n", .overrides = {"a=2", "b=3"}});
  EXPECT_EQ(read(run.path() / "config.yaml"), "a: 1\n") << "before it has loaded anything";
  EXPECT_TRUE(run.record_waits());
  commit_record(run.path(), attempt);
  EXPECT_FALSE(run.record_waits());
  EXPECT_EQ(read(run.path() / "config.attempt_1.yaml"), "a: 1\n");
  EXPECT_EQ(read(run.path() / "config.yaml"), "a: 2\n");
  EXPECT_EQ(read(run.path() / "overrides.attempt_1.txt"), "a=1\n");
  EXPECT_EQ(read(run.path() / "overrides.txt"), "a=2\nb=3\n");
  EXPECT_THAT(read(run.path() / "environment.json"), HasSubstr("\"host\""));
}

TEST_F(RunFolderTest, WhatIsNoRunIsNotResumed) {
  EXPECT_TRUE(says(not_resumed(folder_ / "none"), "No such file"));
  EXPECT_TRUE(says(not_resumed(folder_), "is not a run folder"));
}

TEST_F(RunFolderTest, AutoResumesTheNewestWithACheckpoint) {
  EXPECT_EQ(to_resume(), std::nullopt);
  write(runs() / "2026-01-01_00-00-00/checkpoints/step_00000001/x", "");
  write(runs() / "2026-01-02_00-00-00-9/checkpoints/step_00000001/x", "");
  write(runs() / "2026-01-02_00-00-00-10/checkpoints/step_00000001/x", "");
  write(runs() / "2026-01-03_00-00-00/logs/rank_0.log", "failed at the start");
  fs::create_directory_symlink("2026-01-01_00-00-00", runs() / "latest");
  EXPECT_EQ(to_resume(), runs() / "2026-01-02_00-00-00-10");
}

TEST_F(RunFolderTest, TheNewestIsReportedByTheTimeInAllZones) {
  write(runs() / "2026-10-25_02-50-00/logs/rank_0.log", "in summer time");
  write(runs() / "2026-10-25_02-50-00/environment.json", R"({"time": "2026-10-25T02:50:00+0200"})");
  write(runs() / "2026-10-25_02-10-00/logs/rank_0.log", "20 minutes later, in winter time");
  write(runs() / "2026-10-25_02-10-00/environment.json", R"({"time": "2026-10-25T02:10:00+0100"})");
  EXPECT_EQ(to_resume(), runs() / "2026-10-25_02-10-00");
}

TEST_F(RunFolderTest, AutoResumesALoggingOneWhereNoneHasACheckpoint) {
  write(runs() / "2026-01-01_00-00-00/logs/rank_0.log", "x");
  write(runs() / "2026-01-02_00-00-00/logs/rank_0.log", "");
  fs::create_directories(runs() / "2026-01-02_00-00-00/checkpoints/.step_00000001.tmp");
  EXPECT_EQ(to_resume(), runs() / "2026-01-01_00-00-00");
}

TEST_F(RunFolderTest, WhatEndedWellIsNotResumedNorWhatIsOlder) {
  write(runs() / "2026-01-01_00-00-00/checkpoints/step_00000001/x", "");
  write(runs() / "2026-01-02_00-00-00/checkpoints/step_00000001/x", "");
  for (const char* status : {"completed", "stopped_early"}) {
    write(runs() / "2026-01-02_00-00-00/summary.json", std::string("{\"status\": \"") + status + "\"}");
    EXPECT_EQ(to_resume(), std::nullopt);
  }
  for (const char* text : {"{\"status\": \"preempted\"}", "{\"status\": \"failed\"}", "{", "[]", "{\"status\": 3}"}) {
    write(runs() / "2026-01-02_00-00-00/summary.json", text);
    EXPECT_EQ(to_resume(), runs() / "2026-01-02_00-00-00") << text;
  }
}

TEST_F(RunFolderTest, OneThatCannotBeReadIsPassedOverAndNeitherReadNorWrittenOverALink) {
  write(folder_ / "mine", "mine");
  write(runs() / "2026-01-01_00-00-00/checkpoints/step_1/manifest.json", "{}");
  for (const char* stamp : {"2026-01-02_00-00-00", "2026-01-03_00-00-00"})
    write(runs() / stamp / "checkpoints/step_1/manifest.json", "{}");
  ASSERT_EQ(::mkfifo((runs() / "2026-01-02_00-00-00/summary.json").c_str(), 0600), 0);
  fs::create_symlink(folder_ / "mine", runs() / "2026-01-03_00-00-00/environment.json");
  EXPECT_EQ(to_resume(), runs() / "2026-01-01_00-00-00");

  const auto led = runs() / "2026-01-01_00-00-00";
  write(led / "config.yaml", "name: mnist\n");
  fs::create_directory(led / "logs");
  for (const char* name : {".lock", "events.jsonl", "metrics.csv", "logs/rank_0.log"}) {
    fs::create_symlink(folder_ / "mine", led / name);
    EXPECT_TRUE(says(not_resumed(led), std::string(name) + ": is a link"));
    fs::remove(led / name);
  }
  EXPECT_EQ(read(folder_ / "mine"), "mine");
  fs::rename(led / "checkpoints", folder_ / "large");
  fs::create_directory_symlink(folder_ / "large", led / "checkpoints");
  RunFolder::resume(led);
}

class OwnFolder : public RunFolderTest {
 protected:
  // As another node than the first, which does not see the run.
  void make(const std::string& config = "a: 1\n") const { make_own_folder(dir_, "node1", config); }
  std::string config() const { return read(dir_ / "config.yaml"); }

  fs::path dir_ = folder_ / "deep" / "run";
};

TEST_F(OwnFolder, ARunIsSeenByItsMark) {
  auto run = create(dir_);
  const auto mark = run.leave_mark();
  EXPECT_EQ(run.leave_mark(), mark);
  EXPECT_TRUE(sees_run(dir_, mark));
  EXPECT_FALSE(sees_run(dir_, create().leave_mark()));
  EXPECT_FALSE(sees_run(folder_ / "nowhere", mark));
  EXPECT_FALSE(sees_run(folder_ / "nowhere", ""));
  EXPECT_TRUE(may_write_to_run({.run_dir = dir_, .mark = mark}));
  EXPECT_TRUE(may_write_to_run({.run_dir = dir_})) << "of a single node";
  EXPECT_FALSE(may_write_to_run({.run_dir = dir_, .mark = "another"}));
  EXPECT_FALSE(may_write_to_run({.run_dir = folder_ / "nowhere"}));
}

TEST_F(OwnFolder, SaysWhereTheRunIs) {
  make();
  EXPECT_EQ(kept_elsewhere(dir_), "node1:" + dir_.string());
  EXPECT_EQ(names(dir_), (std::set<std::string>{"config.yaml", "kept_elsewhere.txt", "logs"}));
  EXPECT_EQ(names(dir_.parent_path()), std::set<std::string>{"run"});
  EXPECT_EQ(kept_elsewhere(create().path()), std::nullopt);
}

TEST_F(OwnFolder, IsTakenAgainAndItsExperimentWaitsForTheTraining) {
  make();
  make("a: 2\n");
  EXPECT_EQ(config(), "a: 1\n");
  commit_record(dir_, 1);
  EXPECT_EQ(config(), "a: 2\n");
}

TEST_F(OwnFolder, NeverTakesTheFolderOfARun) {
  { create(dir_); }
  EXPECT_TRUE(says(error_of([&] { make(); }), "already exists ... node1"));
  EXPECT_EQ(kept_elsewhere(dir_), std::nullopt);
  EXPECT_EQ(names(dir_.parent_path()), std::set<std::string>{"run"});
}

TEST_F(OwnFolder, IsNoRunToContinueWith) {
  make();
  EXPECT_TRUE(says(not_resumed(dir_), "kept at node1:"));
  EXPECT_TRUE(says(refused(dir_), "kept at node1:"));
  const auto stamped = runs() / "2026-11-20_12-00-00";
  make_own_folder(stamped, "node1", "a: 1\n");
  replace_file(stamped / "logs" / "rank_1.log", "something\n");
  EXPECT_EQ(to_resume(), std::nullopt);
}

using EventLog = FolderTest;

TEST_F(EventLog, EveryEventIsALineAlsoAfterHalfALineOfAKilledWorker) {
  write(folder_ / "events.jsonl", "{\"kind\": \"check");
  append_event(folder_, {.attempt = 0, .kind = "attempt", .text = "rank 1: \"quoted\" \xff"});
  append_event(folder_, {.attempt = 1, .kind = "end", .text = "completed"});
  std::istringstream written(read(folder_ / "events.jsonl"));
  std::string half, first, second, none;
  std::getline(written, half), std::getline(written, first), std::getline(written, second);
  EXPECT_EQ(nlohmann::json::parse(first)["kind"], "attempt");
  EXPECT_EQ(nlohmann::json::parse(second)["attempt"], 1);
  EXPECT_FALSE(std::getline(written, none));
  EXPECT_NO_THROW(append_event("/dev/null/at/all", {.kind = "end", .text = "completed"}));
}

}  // namespace
}  // namespace ddprun

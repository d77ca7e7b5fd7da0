// SPDX-License-Identifier: MIT
#include "metrics/logger_hub.h"

#include <ddprun/file_error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <latch>
#include <stdexcept>
#include <thread>

namespace ddprun {
namespace {

class Recorder : public Logger {
 public:
  void start(const RunStart& run) override { seen.push_back("start " + run.name); }
  void metrics(const MetricRow& row) override { seen.push_back("step " + std::to_string(row.step)); }
  void confusion(const ConfusionTable& table) override { seen.push_back("confusion " + table.split); }
  void predictions(const PredictionTable& table) override { seen.push_back("predictions " + table.split); }
  void finish(const RunEnd& end) override { seen.push_back("finish " + end.status); }
  std::vector<std::string> seen;
};

class Thrower : public Logger {
 public:
  void start(const RunStart&) override {}
  void metrics(const MetricRow&) override {
    ++calls;
    throw std::runtime_error("server is gone");
  }
  int calls = 0;
};

// Blocks in its first row until the test lets it go.
class Blocker : public Logger {
 public:
  void start(const RunStart&) override {}
  void metrics(const MetricRow&) override {
    entered.count_down();
    release.wait();
  }
  std::latch entered{1}, release{1};
};

// Its rows and its predictions fail with these errors, if they are not 0.
class OnBadDisk : public Recorder {
 public:
  void metrics(const MetricRow& row) override {
    refuse(of_rows);
    Recorder::metrics(row);
  }
  void predictions(const PredictionTable& table) override {
    refuse(of_predictions);
    Recorder::predictions(table);
    ++tables;
  }
  void event(const RunEvent& event) override { seen.push_back("event " + event.kind); }
  std::atomic<int> of_rows = 0, of_predictions = 0;
  std::atomic<int> refused = 0, tables = 0;  // how many

 private:
  void refuse(int error) {
    if (error == 0) return;
    ++refused;
    throw FileError("metrics.jsonl: cannot write", error);
  }
};

MetricRow row(int64_t step) { return {.step = step}; }

TEST(LoggerHub, EveryLoggerGetsEverythingInOrder) {
  const auto a = std::make_shared<Recorder>(), b = std::make_shared<Recorder>();
  LoggerHub hub({{"a", a}, {"b", b}});
  hub.start({.name = "toy"});
  for (int step = 1; step <= 3; ++step) hub.metrics(row(step));
  hub.confusion({.split = "val"});
  hub.predictions({.split = "test"});
  hub.finish({.status = "completed"});
  const std::vector<std::string> all{"start toy",     "step 1",           "step 2",          "step 3",
                                     "confusion val", "predictions test", "finish completed"};
  EXPECT_EQ(a->seen, all);
  EXPECT_EQ(b->seen, all);
}

TEST(LoggerHub, ALoggerThatThrowsIsLeftOutAndTheOthersContinue) {
  const auto broken = std::make_shared<Thrower>();
  const auto good = std::make_shared<Recorder>();
  LoggerHub hub({{"broken", broken}, {"good", good}});
  for (int step = 1; step <= 3; ++step) {
    hub.metrics(row(step));
    hub.flush();
  }
  EXPECT_EQ(broken->calls, 1);
  EXPECT_EQ(good->seen.size(), 3U);
}

TEST(LoggerHub, WhatAFullDiskDoesNotTakeIsWrittenLaterInItsOrder) {
  for (const int error : {ENOSPC, EDQUOT, EIO, ESTALE}) {
    const auto logger = std::make_shared<OnBadDisk>();
    LoggerHub hub({{"jsonl", logger}});
    logger->of_rows = error;
    hub.metrics(row(1));
    hub.predictions({.split = "val"});
    hub.metrics(row(2));
    while (logger->refused == 0 || logger->tables == 0) std::this_thread::yield();
    logger->of_rows = 0;
    hub.finish({.status = "completed"});
    EXPECT_EQ(hub.troubles(), std::vector<LoggerTrouble>());
    std::erase(logger->seen, "event logger");
    EXPECT_EQ(logger->seen, (std::vector<std::string>{"predictions val", "step 1", "step 2", "finish completed"}));
  }
}

TEST(LoggerHub, OneTableThatCannotBeWrittenDoesNotStopTheRows) {
  const auto logger = std::make_shared<OnBadDisk>();
  logger->of_predictions = EACCES;
  LoggerHub hub({{"jsonl", logger}});
  hub.metrics(row(1));
  for (int table = 0; table < 3; ++table) hub.predictions({.split = "val"});
  hub.metrics(row(2));
  hub.finish({.status = "completed"});
  std::erase(logger->seen, "event logger");
  EXPECT_EQ(logger->seen, (std::vector<std::string>{"step 1", "step 2", "finish completed"}));
  EXPECT_EQ(hub.troubles(), (std::vector<LoggerTrouble>{{"jsonl", 3, "metrics.jsonl: cannot write"}}));
}

TEST(LoggerHub, WhatIsStillOwedAtTheEndIsCountedAsLost) {
  const auto logger = std::make_shared<OnBadDisk>(), shows = std::make_shared<OnBadDisk>();
  logger->of_rows = shows->of_rows = ENOSPC;
  LoggerHub hub({{"jsonl", logger}, {.name = "console", .logger = shows, .keeps = false}},
                std::chrono::milliseconds(10));
  for (int step = 1; step <= 3; ++step) hub.metrics(row(step));
  hub.finish({.status = "completed"});
  const auto troubles = hub.troubles();
  ASSERT_EQ(troubles.size(), 2U);
  EXPECT_EQ(troubles[0].text(), "logger jsonl lost 4 rows and tables: metrics.jsonl: cannot write");  // and the end
  EXPECT_EQ(troubles[1].lost, 0);  // others keep what it shows
}

TEST(LoggerHub, WhatHappensToALoggerIsAnEventForTheOthers) {
  const auto broken = std::make_shared<Thrower>();
  const auto good = std::make_shared<OnBadDisk>();
  LoggerHub hub({{"broken", broken}, {"good", good}});
  hub.metrics(row(1));
  hub.flush();
  hub.metrics(row(2));
  hub.finish({.status = "completed"});
  EXPECT_THAT(good->seen, ::testing::ElementsAre("step 1", "event logger", "step 2", "finish completed"));
  EXPECT_EQ(hub.troubles()[0].text().rfind("logger broken lost ", 0), 0U) << hub.troubles()[0].text();
}

TEST(LoggerHub, ALoggerThatHangsDelaysNeitherTheTrainingNorTheOthers) {
  const auto stuck = std::make_shared<Blocker>();
  const auto good = std::make_shared<Recorder>();
  LoggerHub hub({{"stuck", stuck}, {"good", good}}, std::chrono::seconds(1));
  hub.metrics(row(1));
  stuck->entered.wait();
  for (int step = 2; step <= 100; ++step) hub.metrics(row(step));  // returns while the other is stuck
  ::testing::internal::CaptureStderr();
  for (int save = 0; save < 3; ++save) hub.flush();  // the first gives the stuck one up after its patience
  const auto reported = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(reported.find("logger stuck hangs"), std::string::npos);
  EXPECT_EQ(reported.find("logger stuck hangs"), reported.rfind("logger stuck hangs"));
  EXPECT_EQ(good->seen.size(), 100U);
  stuck->release.count_down();
}

TEST(LoggerHub, TablesThatWaitAreBoundedByTheirBytes) {
  const auto stuck = std::make_shared<Blocker>();
  PredictionTable table{.split = "val", .rows = std::vector<Prediction>(1)};
  table.rows[0].image.bytes.resize(100 << 20);
  ::testing::internal::CaptureStderr();
  {
    LoggerHub hub({{"stuck", stuck}});
    hub.metrics(row(1));
    stuck->entered.wait();
    for (int step = 0; step < 5; ++step) hub.predictions(table);  // two fit into 256 MB
    stuck->release.count_down();
  }
  const auto reported = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(reported.find("too slow: 2 rows and tables (210 MB) are waiting"), std::string::npos) << reported;
  EXPECT_NE(reported.find("lost 3 rows and tables (315 MB)"), std::string::npos) << reported;
}

TEST(LoggerHub, ManyRowsAtOnceAllArriveInTheirOrder) {
  const auto good = std::make_shared<Recorder>();
  std::vector<std::string> expected;
  {
    LoggerHub hub({{"good", good}});
    for (int burst = 0; burst < 3; ++burst) {  // the second and third meet a logger that sleeps, or lets rows gather
      for (int step = 1; step <= 3000; ++step) {
        hub.metrics(row(step));
        expected.push_back("step " + std::to_string(step));
      }
      hub.flush();
      EXPECT_EQ(good->seen.size(), expected.size());
    }
    hub.metrics(row(1));
    expected.push_back("step 1");
  }  // what is in the queue at the end is not lost
  EXPECT_EQ(good->seen, expected);
}

}  // namespace
}  // namespace ddprun

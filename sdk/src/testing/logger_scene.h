// SPDX-License-Identifier: MIT
// A made-up run for the checks of a logger.
#pragma once

#include <ddprun/testing/logger.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::check {

// A new folder that is removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The folder of a test's run: its own, or a temporary one.
class RunFolder {
 public:
  explicit RunFolder(const LoggerTest& test);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<TemporaryFolder> temporary_;
  std::filesystem::path path_;
};

// Everything that a run can report. All names begin with `mark`, so that they can be found again.
struct ToldRun {
  ToldRun(const std::string& mark, const std::filesystem::path& run_dir);

  // Overwrites all texts in place, and the numbers.
  void overwrite();

  RunStart start;
  RunProgress progress;
  MetricRow train, system, val;
  RankTable ranks;
  RunEvent event;
  ConfusionTable confusion;
  PredictionTable predictions;
  HistogramTable histograms;
  RunEnd end;
};

constexpr char kOverwritten[] = "ZZZZZZZZ";  // what texts of eight letters and more are overwritten with

// Calls `body` on another thread, as the runner calls a logger; throws what it throws.
void in_logger_thread(const std::function<void()>& body);

std::shared_ptr<Logger> made(const LoggerTest& test);

// Calls the hooks in the order of a run; what one throws becomes a Problem.
void tell(Logger& logger, const ToldRun& run, bool finish = true);

}  // namespace ddprun::check

// SPDX-License-Identifier: MIT
// A run as a logger is told of it.
#pragma once

#include <ddprun/testing/logger.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::check {

// A new folder that goes with this object.
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

// All that a run can tell, its names beginning with `mark`, so that they are found again.
struct ToldRun {
  ToldRun(const std::string& mark, const std::filesystem::path& run_dir);

  // Writes over all texts, each in the memory that it had, and over the numbers.
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

constexpr char kOverwritten[] = "ZZZZZZZZ";  // what texts of eight letters and more have become

// Calls `body` in another thread than ours, as the runner calls a logger; throws what it throws.
void in_logger_thread(const std::function<void()>& body);

std::shared_ptr<Logger> made(const LoggerTest& test);

// The hooks in the order of a run, each as a Problem where it throws.
void tell(Logger& logger, const ToldRun& run, bool finish = true);

}  // namespace ddprun::check

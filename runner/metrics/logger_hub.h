// SPDX-License-Identifier: MIT
// Stands between the training and its loggers: each logger has a thread and a bounded queue of its own, so that a slow,
// hanging or throwing one neither stops nor slows the training nor the other loggers.
#pragma once

#include <ddprun/logger.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class LoggerHub {
 public:
  struct Entry {
    std::string name;  // for warnings
    std::shared_ptr<Logger> logger;
    std::string section;  // of the experiment: "loggers[0]"
  };

  explicit LoggerHub(std::vector<Entry> loggers);  // none on ranks other than 0
  ~LoggerHub();
  LoggerHub(const LoggerHub&) = delete;
  LoggerHub& operator=(const LoggerHub&) = delete;

  void start(const RunStart& run);
  void metrics(MetricRow row);
  void progress(const RunProgress& progress);  // left out while a logger's queue is not empty
  void confusion(const ConfusionTable& table);
  void predictions(const PredictionTable& table);
  void histograms(const HistogramTable& table);
  void ranks(const RankTable& table);
  void event(const RunEvent& event);

  // Asks the loggers to write out all that came before, forced to the disk where they write files. What it returns
  // waits for them, on any thread, but no longer than some seconds for a logger that hangs: that one is warned of, and
  // not waited for again until it has moved.
  std::function<void()> start_flush();
  void flush() { start_flush()(); }
  void finish(const RunEnd& end);

 private:
  class Channel;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace ddprun

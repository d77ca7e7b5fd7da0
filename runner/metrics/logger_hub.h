// SPDX-License-Identifier: MIT
// Stands between the training and its loggers: each logger has its own thread and bounded queue, so that a slow,
// hanging or throwing one neither stops nor slows the training or the other loggers.
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
    std::string section;  // in the experiment: "loggers[0]"
  };

  explicit LoggerHub(std::vector<Entry> loggers);  // none on ranks other than 0
  ~LoggerHub();
  LoggerHub(const LoggerHub&) = delete;
  LoggerHub& operator=(const LoggerHub&) = delete;

  void start(const RunStart& run);
  void metrics(MetricRow row);
  void progress(const RunProgress& progress);  // skipped while a logger's queue is not empty
  void confusion(const ConfusionTable& table);
  void predictions(const PredictionTable& table);
  void histograms(const HistogramTable& table);
  void ranks(const RankTable& table);
  void event(const RunEvent& event);

  // Asks the loggers to write out everything before it, and files to the disk. The function that it returns waits for
  // them, on any thread, but only some seconds for a logger that hangs: it warns of that one and does not wait for it
  // again until it moves.
  std::function<void()> start_flush();
  void flush() { start_flush()(); }
  void finish(const RunEnd& end);

 private:
  class Channel;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace ddprun

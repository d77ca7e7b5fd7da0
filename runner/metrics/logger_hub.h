// SPDX-License-Identifier: MIT
// Stands between the training and its loggers: each logger has its own thread and bounded queue, so that a slow,
// hanging or throwing one neither stops nor slows the training or the other loggers.
//
// What the file system may take later (a full disk, an error of the network's) stays in the queue and is tried again,
// with all that comes behind it through the same hook; the other hooks continue. Other errors of the file system end
// the hook, and other exceptions the logger.
#pragma once

#include <ddprun/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// What a logger did not write.
struct LoggerTrouble {
  std::string logger;   // the plugin's name
  int64_t lost = 0;     // rows, tables and events; 0: none that others do not keep
  std::string problem;  // in words, without the number

  // Returns "logger jsonl lost 12 rows and tables: PROBLEM".
  std::string text() const;
  bool operator==(const LoggerTrouble&) const = default;
};

// Returns the troubles of one attempt after another, each logger's as one.
std::vector<LoggerTrouble> together(std::vector<LoggerTrouble> earlier, const std::vector<LoggerTrouble>& later);

class LoggerHub {
 public:
  struct Entry {
    std::string name;  // for warnings
    std::shared_ptr<Logger> logger;
    std::string section;  // in the experiment: "loggers[0]"
    bool keeps = true;    // false: it only shows what others keep, so that nothing is lost with its lines
  };

  // Takes the loggers; none on ranks other than 0. `patience` is for one that hangs, or whose files cannot be written,
  // at a checkpoint and at the end.
  explicit LoggerHub(std::vector<Entry> loggers, std::chrono::milliseconds patience = std::chrono::seconds(5));
  ~LoggerHub();
  LoggerHub(const LoggerHub&) = delete;
  LoggerHub& operator=(const LoggerHub&) = delete;

  void start(const RunStart& run);
  void metrics(MetricRow row);
  void progress(const RunProgress& progress);  // skipped while a logger's queue is not empty
  void confusion(const ConfusionTable& table);
  void predictions(const PredictionTable& table);
  void histograms(const HistogramTable& table);
  void event(const RunEvent& event);

  // Asks the loggers to write out everything before it, and files to the disk. The function that it returns waits for
  // them, on any thread, but only some seconds for a logger that hangs: it warns of that one and does not wait for it
  // again until it moves.
  std::function<void()> start_flush();
  void flush() { start_flush()(); }

  // Does the same at the run's end: it also waits, some seconds, for loggers whose files could not be written.
  void flush_all();

  // Passes the end to the loggers, and waits for them as flush_all() does. What they still owe after that is lost.
  void finish(const RunEnd& end);

  // Returns the loggers that have given up, or lack rows, with what they lack so far. Call it after flush_all() or
  // finish().
  std::vector<LoggerTrouble> troubles() const;

 private:
  void log_news(int64_t epoch, int64_t step);

  // Shares one copy of the row, or of a table's images, which are large, between all loggers.
  template <class Row>
  void post(const char* hook, Row row, void (Logger::*call)(const Row&));

  class Channel;
  class News;
  std::shared_ptr<News> news_;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace ddprun

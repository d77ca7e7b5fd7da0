// SPDX-License-Identifier: MIT
// A sink for what a run tells about itself: console, files, tracking servers.
//
// Only rank 0 has loggers. The runner calls each from one thread of its own, through a bounded queue: a slow logger
// delays nobody, one that throws gets a warning with its name and is left out from then on. Constructors only read
// options. All methods but start() do nothing by default.
#pragma once

#include <ddprun/plugin.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// One layer of the model.
struct LayerSummary {
  std::string name;        // as the model registers it: "features.0"; empty for the model itself
  std::string kind;        // "Conv2d"
  std::string shape;       // of its output for one batch: "64 x 32 x 28 x 28"; empty where it is not known
  int64_t parameters = 0;  // trainable numbers of its own
};

// Where one rank works.
struct RankPlace {
  std::string host;
  std::string device;  // "cpu", or "cuda:1, NVIDIA H200, 139 GiB"
};

// The run at its start.
struct RunStart {
  double time = 0;                // seconds since 1970
  std::string name;               // of the experiment
  std::filesystem::path run_dir;  // loggers write below it
  std::string config_yaml;        // the frozen experiment
  int64_t attempt = 0;            // 0 for the first start, then one more with every resume
  int64_t resumed_step = 0;       // rows of later steps, from an attempt that was cut off, will come again
  int64_t world_size = 1;
  int64_t nodes = 1;
  int64_t global_batch = 0;
  int64_t steps_per_epoch = 0;
  int64_t max_epochs = 0;
  int64_t max_steps = 0;   // where the run ends at the latest
  int64_t parameters = 0;  // trainable numbers in the model
  std::string model, dataset, optimizer, device;
  std::string backend;           // what the ranks exchange by: "nccl" or "gloo"; empty where there is one
  std::vector<RankPlace> ranks;  // world_size of them
  int64_t train_samples = 0, val_samples = 0, test_samples = 0;
  std::vector<int64_t> sample_shape;  // of one input: {1, 28, 28}
  int64_t classes = 0;                // 0 where the task has none
  std::vector<LayerSummary> layers;   // those with parameters, in the model's order
};

// One row of numbers: means over all ranks.
struct MetricRow {
  double time = 0;  // seconds since 1970
  std::string
      split;  // "train", "epoch" (the means of an epoch, or since an evaluation within it), "val", "test" or "system"
  int64_t epoch = 0;    // counted from 1
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // training samples seen, all ranks together
  std::vector<std::pair<std::string, double>> values;
};

// What an evaluation took for what, every sample of the split counted once.
struct ConfusionTable {
  std::string split;  // "val" or "test"
  int64_t epoch = 0;  // counted from 1
  int64_t step = 0;
  std::vector<std::string> class_names;  // C of them
  std::vector<int64_t> counts;           // C x C, row after row: how often truth (row) was taken for guess (column)
};

// An image as people see it.
struct ShownImage {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> bytes;  // 0 .. 255, channel after channel, each row after row
};

// One sample with what the model makes of it.
struct Prediction {
  int64_t id = 0;                   // the sample's number in its split
  ShownImage image;                 // empty where the samples are no images
  ShownImage output;                // what the model makes of it, where that is an image of the same shape; else empty
  int64_t guess = -1, truth = -1;   // classes; -1 where the task has none
  std::vector<double> scores;       // of each class, or the predicted values; empty where there is an output
  std::vector<double> true_values;  // what the values should be, where the task has no classes
};

// Some samples of an evaluation, to be looked at.
struct PredictionTable {
  std::string split;
  int64_t epoch = 0;
  int64_t step = 0;
  std::vector<std::string> class_names;  // empty where the task has no classes
  std::vector<Prediction> rows;
};

// How the numbers of one tensor are spread.
struct Histogram {
  std::string name;                  // "weights/conv1.weight", "gradients/conv1.weight"
  int64_t count = 0, nonfinite = 0;  // of all numbers; NaN and infinite ones are in neither what follows
  double min = 0, max = 0, mean = 0, stddev = 0;
  std::vector<double> edges;    // N + 1 of them, ascending; empty where nothing is finite
  std::vector<int64_t> counts;  // N: of numbers from one edge to the next
};

// Of weights, and of the gradients at the same step, averaged over the ranks.
struct HistogramTable {
  int64_t epoch = 0;  // counted from 1
  int64_t step = 0;
  std::vector<Histogram> histograms;
};

// What each rank measured since the table before.
struct RankTable {
  double time = 0;  // seconds since 1970
  int64_t epoch = 0;
  int64_t step = 0;
  std::vector<std::string> columns;       // "forward_seconds", "rss_bytes"; seconds are those of one step
  std::vector<std::vector<double>> rows;  // one for each rank; NaN where it cannot tell
};

// Something that happened, for people.
struct RunEvent {
  double time = 0;  // seconds since 1970
  int64_t epoch = 0;
  int64_t step = 0;
  std::string kind;  // "resumed", "checkpoint", "nonfinite", "rollback"
  std::string text;  // one line
};

// Where the training is, for a bar: called at most some ten times a second.
struct RunProgress {
  int64_t epoch = 0;
  int64_t step = 0;
  int64_t step_in_epoch = 0;
  std::string phase;  // "train", "val" or "test"
  double samples_per_second = 0;
};

// How the run ended.
struct RunEnd {
  std::string status;       // "completed", "stopped_early", "preempted" or "failed"
  std::string stop_reason;  // one sentence
  int64_t steps = 0;
  double epochs = 0;
  int64_t samples = 0;
  double total_seconds = 0;  // of all commands, each from its start
  double train_seconds = 0;  // inside training steps, of all commands
  double samples_per_second = 0;
  std::vector<std::pair<std::string, double>> metrics;  // the last of each: "val/accuracy"
  std::vector<std::pair<std::string, double>> best;     // the evaluation where the monitored metric was best, it first
  int64_t best_step = 0;                                // of that evaluation
  int64_t test_correct = -1, test_total = -1;           // counted test images; -1 where there is no such count
  std::string checkpoint;                               // path of the last, empty where there is none
  int64_t world_size = 1, nodes = 1;
};

class DDPRUN_API Logger {
 public:
  virtual ~Logger();

  virtual void start(const RunStart& run) = 0;             // first; for each attempt on a logger of its own
  virtual void metrics(const MetricRow& row);              // each `trainer.log_every` steps, and after an evaluation
  virtual void progress(const RunProgress& progress);      // often, with nothing that metrics() does not tell
  virtual void confusion(const ConfusionTable& table);     // after an evaluation, where `objective.metrics` asks for it
  virtual void predictions(const PredictionTable& table);  // after an evaluation, where `predictions:` asks for it
  virtual void histograms(const HistogramTable& table);    // after an evaluation, where `histograms:` asks for it
  virtual void ranks(const RankTable& table);              // with each row of the split "system"
  virtual void event(const RunEvent& event);               // when it happens
  virtual void flush();                                    // before a checkpoint counts: force all to the disk
  virtual void finish(const RunEnd& end);                  // last; not where the process is killed

  // Sends what the run could not send, and how it ended, to a server that was not there. No other method is called
  // before it; it may be called for a run that has sent everything. By `ddprun upload`, and by the launcher where rank
  // 0 was killed. Throws where something is left.
  virtual void upload(const std::filesystem::path& run_dir, const RunEnd& end);
};

}  // namespace ddprun

// Makes the class a logger plugin; help_text is shown by `ddprun plugins`. Once in a library, outside any namespace.
#define DDPRUN_LOGGER(plugin_class, plugin_name, help_text)                                                        \
  DDPRUN_REGISTER_PLUGIN((::ddprun::detail::create_plugin<::ddprun::Logger, plugin_class>), "logger", plugin_name, \
                         help_text)

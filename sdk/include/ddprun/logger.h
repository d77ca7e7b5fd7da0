// SPDX-License-Identifier: MIT
// A sink for what a run reports: console, files, tracking servers.
//
// Only rank 0 has loggers. The runner calls each from a thread of its own, through a bounded queue: a slow logger
// delays nobody, and one that throws is named in a warning and not called again; what the file system may take later
// (<ddprun/file_error.h>) comes again instead. Constructors only read options. All methods but start() do nothing by
// default.
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
  int64_t parameters = 0;  // trainable numbers of this layer alone
};

// The place of one rank.
struct RankPlace {
  std::string host;
  std::string device;  // "cpu", or "cuda:1, NVIDIA H200, 139 GiB"
};

// The run at its start.
struct RunStart {
  double time = 0;                // seconds since 1970
  std::string name;               // name of the experiment
  std::filesystem::path run_dir;  // loggers write below this folder
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
  std::string backend;           // "nccl" or "gloo", used between ranks; empty if there is only one rank
  std::vector<RankPlace> ranks;  // one per rank
  int64_t train_samples = 0, val_samples = 0, test_samples = 0;
  std::vector<int64_t> sample_shape;  // shape of one input: {1, 28, 28}
  int64_t classes = 0;                // 0 if the task has none
  std::vector<LayerSummary> layers;   // those with parameters, in the model's order
};

// One row of numbers, each a mean over all ranks.
struct MetricRow {
  double time = 0;  // seconds since 1970
  std::string
      split;  // "train", "epoch" (the means of an epoch, or since an evaluation within it), "val", "test" or "system"
  int64_t epoch = 0;    // counted from 1
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // training samples seen by all ranks together
  std::vector<std::pair<std::string, double>> values;
};

// The confusion matrix of an evaluation; every sample of the split counts once.
struct ConfusionTable {
  std::string split;  // "val" or "test"
  int64_t epoch = 0;  // counted from 1
  int64_t step = 0;
  std::vector<std::string> class_names;  // C of them
  std::vector<int64_t> counts;           // C x C, row-major: how often truth (row) was taken for guess (column)
};

// An image for people to look at.
struct ShownImage {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> bytes;  // 0 .. 255, channel after channel, each row after row
};

// One sample with the model's prediction for it.
struct Prediction {
  int64_t id = 0;                   // the sample's number in its split
  ShownImage image;                 // empty if the samples are not images
  ShownImage output;                // the model's output, if that is an image of the same shape; otherwise empty
  int64_t guess = -1, truth = -1;   // classes; -1 if the task has none
  std::vector<double> scores;       // one per class, or the predicted values; empty if there is an output
  std::vector<double> true_values;  // what the values should be, if the task has no classes
};

// Some samples of an evaluation, for people to look at.
struct PredictionTable {
  std::string split;
  int64_t epoch = 0;
  int64_t step = 0;
  std::vector<std::string> class_names;  // empty if the task has no classes
  std::vector<Prediction> rows;
};

// The distribution of the numbers of one tensor.
struct Histogram {
  std::string name;                  // "weights/conv1.weight", "gradients/conv1.weight"
  int64_t count = 0, nonfinite = 0;  // of all numbers; NaN and infinite ones are not in the edges and counts below
  double min = 0, max = 0, mean = 0, stddev = 0;
  std::vector<double> edges;    // N + 1 of them, ascending; empty if nothing is finite
  std::vector<int64_t> counts;  // N of them, one for each interval between two edges
};

// Histograms of the weights, and of the gradients of the same step, averaged over the ranks.
struct HistogramTable {
  int64_t epoch = 0;  // counted from 1
  int64_t step = 0;
  std::vector<Histogram> histograms;
};

// Something that happened, in words.
struct RunEvent {
  double time = 0;  // seconds since 1970
  int64_t epoch = 0;
  int64_t step = 0;
  std::string kind;  // "resumed", "checkpoint", "nonfinite", "rollback"
  std::string text;  // a single line
};

// The training's position, for a progress bar. Called about ten times a second at most.
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
  std::string stop_reason;  // a single sentence
  int64_t steps = 0;
  double epochs = 0;
  int64_t samples = 0;
  double total_seconds = 0;  // of all commands, each from its start
  double train_seconds = 0;  // inside training steps, of all commands
  double samples_per_second = 0;
  double tokens_per_second = 0;                         // places of the targets; 0: they are no sequences
  double model_flops_per_second = 0;                    // of forward and backward, all devices together; 0: not counted
  double mfu = 0;                                       // that in relation to what the devices could do; 0: not known
  std::vector<std::pair<std::string, double>> metrics;  // the last of each: "val/accuracy"
  std::vector<std::pair<std::string, double>> best;  // the evaluation with the best monitored metric, that metric first
  int64_t best_step = 0;                             // step of that evaluation
  int64_t test_correct = -1, test_total = -1;        // counted test images; -1 if there is no such count
  std::string checkpoint;                            // path of the last one; empty if there is none
  int64_t world_size = 1, nodes = 1;
};

// A program that runs beside the run, on the machine that keeps the run's folder, and sends it elsewhere from the files
// there. The command that started the run owns it, no worker does: it outlives attempts, is started again if it is
// killed, and is not waited for by the training.
//
//   COMMAND --check         before anything is trained: exits with 0 if it can do its work as far as that is known
//                           without a network; otherwise its last line says what is missing.
//   COMMAND --beside RUN    beside the run. The end of its standard input is the end of the run, whose files are then
//                           complete; it sends what is left within a minute. It writes lines to its standard output:
//                           "info TEXT" and "warning TEXT" for the user, the warning if rows cannot be sent, "done"
//                           when all is sent, "failed TEXT" if it gives up; after these two it ends. Its standard error
//                           goes to RUN/logs/NAME.log.
//   COMMAND RUN             afterwards, by the user: sends what is left.
struct Sidecar {
  std::string name;                  // where the run is sent: "wandb"; only one of that name runs
  std::vector<std::string> command;  // command[0] is a path, or found on PATH; empty: there is none
  std::string reads;                 // the logger whose files it reads, added to the run if it is absent: "jsonl"
};

class DDPRUN_API Logger {
 public:
  virtual ~Logger();

  virtual void start(const RunStart& run) = 0;             // comes first; each attempt has a logger of its own
  virtual void metrics(const MetricRow& row);              // every `trainer.log_every` steps, and after an evaluation
  virtual void progress(const RunProgress& progress);      // often, and only with what metrics() reports too
  virtual void confusion(const ConfusionTable& table);     // after an evaluation, if `objective.metrics` asks for it
  virtual void predictions(const PredictionTable& table);  // after an evaluation, if `predictions:` asks for it
  virtual void histograms(const HistogramTable& table);    // after an evaluation, if `histograms:` asks for it
  virtual void event(const RunEvent& event);               // when it happens
  virtual void flush();                                    // before a checkpoint counts: force everything to the disk
  virtual void finish(const RunEnd& end);                  // comes last; not called if the process is killed

  // Returns whether it only shows to people what other loggers keep: such a one is left out with --quiet, and nothing
  // is lost with its lines. The default is false.
  virtual bool only_shows() const;

  // What sends the run elsewhere while it trains, if anything does. Called in any process, and only on an object for
  // which no other method has been called.
  virtual Sidecar sidecar() const;
};

}  // namespace ddprun

// Registers the class as a logger plugin; `ddprun plugins` shows help_text. Use once per library, outside any
// namespace.
#define DDPRUN_LOGGER(plugin_class, plugin_name, help_text)                                                        \
  DDPRUN_REGISTER_PLUGIN((::ddprun::detail::create_plugin<::ddprun::Logger, plugin_class>), "logger", plugin_name, \
                         help_text)

// SPDX-License-Identifier: MIT
#include "config/sections.h"

#include "config/interval.h"

#include <cmath>
#include <optional>
#include <regex>

namespace ddprun {
namespace {

// Reads a count, or "auto" as 0.
int64_t read_auto(Options& options, std::string_view name, std::string_view help, int64_t most) {
  const auto text = options.get<std::string>(name, "auto", help);
  if (text == "auto") return 0;
  const auto limit = parse_limit(text);
  if (limit && limit->batches >= 1 && limit->batches <= most) return limit->batches;
  options.reject(name, "expected auto or int 1 .. " + std::to_string(most) + ", found \"" + text + "\"");
  return 0;
}

// Returns whether this is a metric that can be followed; the test split is measured only once, at the end.
bool is_metric(const std::string& name) {
  const auto slash = name.find('/');
  const auto split = name.substr(0, slash);
  return slash != name.npos && slash + 1 < name.size() && (split == "train" || split == "val");
}

// Returns whether smaller is better, as for a loss; for other metrics larger usually is.
bool is_loss(const std::string& metric) { return metric.ends_with("loss") || metric.ends_with("perplexity"); }

}  // namespace

std::string read_monitor(Options& options, std::string_view fallback, std::string_view help) {
  auto metric = options.get<std::string>("monitor", std::string(fallback), help);
  if (!is_metric(metric)) {
    options.reject("monitor", "expected train/ or val/ and a metric, such as val/accuracy, found \"" + metric + "\"");
  }
  return metric;
}

bool read_maximize(Options& options, const std::string& metric) {
  const auto fallback = is_loss(metric) ? "min" : "max";
  return options.choose("mode", fallback, {"max", "min"},
                        "whether more or less is better; min by default for a loss") == "max";
}

EarlyStoppingConfig read_early_stopping(Options& options) {
  EarlyStoppingConfig stopping;
  stopping.monitor = read_monitor(options, stopping.monitor, "the metric to watch");
  stopping.maximize = read_maximize(options, stopping.monitor);
  stopping.patience = options.get<int64_t>(
      "patience", stopping.patience,
      "stop after this many evaluations without an improvement; 0: never, for runs with only a target", {0, kMost});
  stopping.min_delta = options.get<double>("min_delta", stopping.min_delta,
                                           "smaller changes do not count as improvement", {0, kLargest});
  constexpr auto kTarget = "stop when the metric is this good; none by default";
  const bool has_target = !options.subtree("target", kTarget, "float").is_null();  // null: not that of its base
  if (has_target) stopping.target = options.get<double>("target", std::nan(""), kTarget);
  stopping.hold =
      options.get<int64_t>("hold", stopping.hold, "consecutive evaluations that must reach the target", {1, kMost});
  if (has_target && !options.has("patience")) stopping.patience = 0;
  if (!has_target && stopping.patience == 0)
    options.reject("patience", "is 0 and there is no target, so nothing would stop the run early; remove the section");
  return stopping;
}

CheckpointConfig read_checkpoint(Options& options) {
  CheckpointConfig checkpoint;
  checkpoint.every = read_interval(options, "every", "1ep", "never", true,
                                   "1ep, 200st, 10min, 30s, 2h, or never, for only at the end");
  checkpoint.keep =
      options.get<int64_t>("keep", checkpoint.keep, "how many of the newest to keep, besides the best", {1, kMost});
  checkpoint.monitor = read_monitor(options, checkpoint.monitor,
                                    "the metric that `best` follows; by default val/loss if there is no accuracy");
  checkpoint.maximize = read_maximize(options, checkpoint.monitor);
  checkpoint.async = options.get<bool>("async", checkpoint.async,
                                       "save in the background, from a copy in memory; false: training waits");
  checkpoint.only_trainable =
      options.get<bool>("only_trainable", checkpoint.only_trainable,
                        "leave out the weights that never train (below an adapter, frozen), with their digest");
  const auto resume = options.get<std::string>(
      "resume", "never", "never, auto (the newest of this run), or the path of a run or checkpoint");
  if (resume.empty()) options.reject("resume", "expected never, auto or a path, found \"\"");
  if (resume == "auto") {
    checkpoint.resume = Resume::kAuto;
  } else if (resume != "never") {
    checkpoint.resume = Resume::kFrom;
    checkpoint.resume_from = resume;
  }
  return checkpoint;
}

namespace {

// Reads "2", or "1:4".
void read_nodes(Options& options, LaunchConfig& launch) {
  const auto text = options.get<std::string>("nodes", "1", "number of machines, or MIN:MAX; the same as --nnodes");
  static const std::regex kForm(R"((\d{1,5})(?::(\d{1,5}))?)");
  std::smatch parts;
  if (std::regex_match(text, parts, kForm)) {
    launch.min_nodes = std::stol(parts[1]);
    launch.max_nodes = parts[2].matched ? std::stol(parts[2]) : launch.min_nodes;
    if (launch.min_nodes >= 1 && launch.min_nodes <= launch.max_nodes) return;
  }
  launch.min_nodes = launch.max_nodes = 1;
  options.reject("nodes", "expected a number such as 2, or MIN:MAX such as 1:4, found \"" + text + "\"");
}

void read_several_nodes(Options& options, LaunchConfig& launch) {
  read_nodes(options, launch);
  launch.join_seconds =
      options.get<double>("join_seconds", launch.join_seconds, "how long the nodes wait for each other", {1, 1e6});
  launch.node_timeout_seconds = options.get<double>("node_timeout_seconds", launch.node_timeout_seconds,
                                                    "a node that is silent for this long is lost", {1, 1e6});
  launch.address = options.get<std::string>(
      "address", "", "where the others reach this node; by default its address on the route to the first node");
  launch.token_file = options.get<std::string>(
      "token_file", "", "a file with a secret that all nodes share; by default DDPRUN_TOKEN, or none");
}

}  // namespace

LaunchConfig read_launch(Options& options) {
  LaunchConfig launch;
  launch.workers = read_auto(
      options, "workers",
      "processes on each machine; auto: one per GPU, or one on the CPU, with trainer.shards one per core", 1024);
  launch.device = choose(options, "device", launch.device, "where to train; auto: on GPUs if there are any");
  launch.backend =
      choose(options, "backend", launch.backend,
             "how GPUs communicate; auto: nccl; gloo goes through host memory and lets workers share a GPU");
  launch.threads = read_auto(options, "threads",
                             "threads of each worker's kernels; auto: cores / workers, with trainer.shards 1", 1024);
  launch.bind = choose(options, "bind", launch.bind, "auto: a worker stays on the cores next to its GPU; off: on all");
  launch.timeout_seconds = options.get<double>("timeout_seconds", launch.timeout_seconds,
                                               "how long a worker waits for the others", {1, 1e6});
  launch.hang_seconds = options.get<double>("hang_seconds", launch.hang_seconds,
                                            "a worker that stalls for this long has failed; 0: no limit", {0, 1e6});
  launch.max_restarts = options.get<int64_t>("max_restarts", launch.max_restarts,
                                             "restarts from the last checkpoint after failures", {0, kMost});
  launch.restart_seconds = options.get<double>("restart_seconds", launch.restart_seconds,
                                               "pause before the first restart; doubles with each", {0, 3600});
  launch.grace_seconds = options.get<double>("grace_seconds", launch.grace_seconds,
                                             "time to save after the signal to end; then workers are killed", {0, 1e6});
  launch.end_margin_seconds =
      options.get<double>("end_margin_seconds", launch.end_margin_seconds,
                          "save and end this long before Slurm's time limit; 0: do not", {0, 1e6});
  launch.requeue = options.get<bool>("requeue", launch.requeue,
                                     "have Slurm restart the job (scontrol requeue) if a signal ended the run");
  read_several_nodes(options, launch);
  return launch;
}

std::filesystem::path read_run_dir(Options& options) {
  const auto dir = options.get<std::string>("dir", "", "the run's folder; by default outputs/<name>/<time>");
  return dir == "~" || dir.starts_with("~/") ? absolute_paths(Value::scalar(dir)).text() : dir;  // else as it is
}

// The sections for what is shown of a run besides its rows of metrics.
namespace {

// Parses "10..20", both ends included.
std::optional<StepRange> parse_steps(const std::string& text) {
  static const std::regex kForm(R"((\d{1,12})\.\.(\d{1,12}))");
  std::smatch parts;
  if (!std::regex_match(text, parts, kForm)) return std::nullopt;
  const StepRange steps{.first = std::stoll(parts[1]), .last = std::stoll(parts[2])};
  return steps.first >= 1 && steps.first <= steps.last ? std::optional(steps) : std::nullopt;
}

}  // namespace

PredictionsConfig read_predictions(Options& options) {
  constexpr int64_t kMostBatches = 1000, kMostImages = 10'000;  // the table is held in memory
  PredictionsConfig predictions;
  predictions.batches = options.get<int64_t>(
      "num_batches_to_log", 1, "show the samples of this many evaluation batches, spread over the split; 0: none",
      {0, kMostBatches});
  predictions.images_per_batch = options.get<int64_t>("log_images_per_batch", predictions.images_per_batch,
                                                      "samples per batch; 0: none", {0, kMostImages});
  return predictions;
}

StepRange read_steps(Options& options, const char* fallback, int64_t most, std::string_view help) {
  const auto text = options.get<std::string>("steps", fallback, help);
  const auto steps = parse_steps(text);
  if (!steps) {
    options.reject("steps", "expected the first and the last step, such as 10..20, found \"" + text + "\"");
    return {};
  }
  if (steps->last - steps->first >= most)
    options.reject("steps", "expected at most " + std::to_string(most) + " steps, found " + text);
  return *steps;
}

}  // namespace ddprun

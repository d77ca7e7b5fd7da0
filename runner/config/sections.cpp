// SPDX-License-Identifier: MIT
#include "config/sections.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace ddprun {
namespace {

constexpr int64_t kMost = 1'000'000'000;  // far beyond any run; keeps products of two within an int64

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// A count, or "auto" for 0.
int64_t read_auto(Options& options, std::string_view name, std::string_view help, int64_t most) {
  const auto text = options.get<std::string>(name, "auto", help);
  if (text == "auto") return 0;
  const auto count = number_in<int64_t>(text);
  if (count && *count >= 1 && *count <= most) return *count;
  options.reject(name, "expected auto or int 1 .. " + std::to_string(most) + ", found \"" + text + "\"");
  return 0;
}

bool is_metric(const std::string& name) {
  const auto slash = name.find('/');
  const auto split = name.substr(0, slash);
  return slash != name.npos && slash + 1 < name.size() && (split == "train" || split == "val" || split == "test");
}

// A loss is better when smaller; whatever else is measured usually is better when larger.
bool is_loss(const std::string& metric) { return metric.ends_with("loss") || metric.ends_with("perplexity"); }

std::string read_monitor(Options& options, std::string_view help) {
  auto metric = options.get<std::string>("monitor", "val/accuracy", help);
  if (!is_metric(metric)) {
    options.reject("monitor",
                   "expected train/, val/ or test/ and a metric, such as val/accuracy, found \"" + metric + "\"");
  }
  return metric;
}

bool read_maximize(Options& options, const std::string& metric) {
  const auto fallback = is_loss(metric) ? "min" : "max";
  return options.choose("mode", fallback, {"max", "min"},
                        "whether more or less is better; min by default for a loss") == "max";
}

}  // namespace

TrainerConfig read_trainer(Options& options) {
  const TrainerConfig fallback;
  TrainerConfig trainer;
  trainer.max_epochs =
      options.get<int64_t>("max_epochs", fallback.max_epochs, "passes over the training data", {1, kMost});
  trainer.max_steps =
      options.get<int64_t>("max_steps", fallback.max_steps, "optimizer steps; 0: no limit but max_epochs", {0, kMost});
  trainer.global_batch = options.get<int64_t>("global_batch", fallback.global_batch,
                                              "samples per optimizer step, all workers together", {1, kMost});
  trainer.eval_batch =
      options.get<int64_t>("eval_batch", fallback.eval_batch,
                           "samples per evaluation batch of one worker; 0: the global batch, at most 256", {0, kMost});
  trainer.eval_every =
      options.get<int64_t>("eval_every", fallback.eval_every, "epochs between evaluations", {1, kMost});
  trainer.log_every =
      options.get<int64_t>("log_every", fallback.log_every, "steps between rows of training metrics", {1, kMost});
  trainer.prefetch_threads = options.get<int64_t>("prefetch_threads", fallback.prefetch_threads,
                                                  "threads that read data ahead, per worker; 0: none", {0, 256});
  trainer.prefetch_batches =
      options.get<int64_t>("prefetch_batches", fallback.prefetch_batches, "batches held ready, at most", {1, 1024});
  trainer.precision =
      options.choose("precision", fallback.precision, {"fp32"}, "numbers of the forward and backward pass");
  trainer.deterministic = options.get<bool>("deterministic", fallback.deterministic,
                                            "the same bits in every run of the same seed and world size");
  trainer.stop_on_nonfinite =
      options.get<bool>("stop_on_nonfinite", fallback.stop_on_nonfinite, "stop when the loss is NaN or infinite");
  return trainer;
}

EarlyStoppingConfig read_early_stopping(Options& options) {
  EarlyStoppingConfig stopping;
  stopping.monitor = read_monitor(options, "the metric to watch");
  stopping.maximize = read_maximize(options, stopping.monitor);
  stopping.patience = options.get<int64_t>(
      "patience", stopping.patience, "evaluations without an improvement, or in a row at the target, before it stops",
      {1, kMost});
  stopping.min_delta = options.get<double>("min_delta", stopping.min_delta, "a smaller change is no improvement",
                                           {0, std::numeric_limits<double>::max()});
  const bool has_target = options.has("target");
  const auto target =
      options.get<double>("target", std::nan(""), "stop when the metric stays this good; none by default");
  if (has_target) stopping.target = target;
  return stopping;
}

CheckpointConfig read_checkpoint(Options& options) {
  CheckpointConfig checkpoint;
  const auto every = options.get<std::string>("every", "1ep", "1ep, 200st, 10min, 30s, 2h, or never: only at the end");
  checkpoint.every = parse_interval(every);
  if (!checkpoint.every && every != "never") {
    options.reject("every", "expected 1ep, 200st, 10min, 30s, 2h or never, found \"" + every + "\"");
  }
  checkpoint.keep = options.get<int64_t>("keep", checkpoint.keep, "the newest so many stay, and the best", {1, kMost});
  checkpoint.monitor = read_monitor(options, "the metric that `best` follows");
  checkpoint.maximize = read_maximize(options, checkpoint.monitor);
  checkpoint.resume = options.get<std::string>(
      "resume", checkpoint.resume, "never, auto (the newest of this run), or the path of a run or checkpoint");
  if (checkpoint.resume.empty()) options.reject("resume", "expected never, auto or a path, found \"\"");
  return checkpoint;
}

LaunchConfig read_launch(Options& options) {
  LaunchConfig launch;
  launch.workers = read_auto(options, "workers", "processes; auto: one per GPU, or one on the CPU", 1024);
  launch.device = options.choose("device", launch.device, {"auto", "cpu", "cuda"},
                                 "where to train; auto: on GPUs where there are any");
  launch.threads = read_auto(options, "threads", "threads of each worker's kernels; auto: cores / workers", 1024);
  launch.timeout_seconds = options.get<double>("timeout_seconds", launch.timeout_seconds,
                                               "how long a worker waits for the others", {1, 1e6});
  return launch;
}

std::filesystem::path read_run_dir(Options& options) {
  return options.get<std::string>("dir", "", "the run's folder; by default outputs/<name>/<time>");
}

std::optional<Interval> parse_interval(std::string_view text) {
  const auto unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == text.npos) return std::nullopt;
  const auto amount = text.substr(0, unit_at);
  const auto unit = text.substr(unit_at);
  if (unit == "ep" || unit == "st") {
    const auto count = number_in<int64_t>(amount);
    if (!count || *count < 1 || *count > kMost) return std::nullopt;
    return unit == "ep" ? Interval{.epochs = *count} : Interval{.steps = *count};
  }
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {{{"s", 1}, {"min", 60}, {"h", 3600}}};
  for (const auto& [name, seconds] : kUnits) {
    const auto count = number_in<double>(amount);
    if (unit == name && count && *count > 0 && *count <= 1e6) return Interval{.seconds = *count * seconds};
  }
  return std::nullopt;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// What a person sees of a run: a progress bar where standard output is a terminal, plain lines where it is not, a line for each
// evaluation, the Training Summary at the end.
#include "confusion_text.h"
#include "progress_bar.h"
#include "terminal_text.h"

#include <ddprun/logger.h>

#include <chrono>
#include <cstdio>
#include <optional>

namespace {

using namespace ddprun::console;

std::string join(const std::vector<std::pair<std::string, double>>& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (name != "lr" && name != "samples_per_second") text += (text.empty() ? "" : "  ") + metric(name, value);
  }
  return text;
}

class Console final : public ddprun::Logger {
 public:
  explicit Console(ddprun::Options& options)
      : every_(options.get<double>("every", 30, "seconds between lines on training where there is no terminal",
                                   {.min = 0})) {}

  void start(const ddprun::RunStart& run) override {
    run_ = run;
    live_ = is_live_terminal();
    started_ = epoch_started_ = last_line_ = Clock::now();
    print(run.name + ": " + run.model + " (" + grouped(run.parameters) + " parameters) on " + run.dataset + " with " +
          run.optimizer + ", " + std::to_string(run.world_size) + (run.world_size == 1 ? " worker" : " workers") +
          " on " + run.device);
    print("global batch " + grouped(run.global_batch) + ", " + grouped(run.steps_per_epoch) + " steps an epoch, " +
          grouped(run.max_steps) + " steps at most; run folder " + run.run_dir.string());
    if (run.resumed_step > 0) print("resumed at step " + grouped(run.resumed_step));
  }

  void metrics(const ddprun::MetricRow& row) override {
    if (row.split == "train") {
      last_train_ = join(row.values);
      if (!live_ && seconds_since(last_line_) >= every_) {
        print("epoch " + std::to_string(row.epoch) + "/" + std::to_string(run_.max_epochs) + "  step " +
              grouped(row.step) + "  " + last_train_);
        last_line_ = Clock::now();
      }
    } else if (row.split == "val") {
      const auto line = "epoch " + std::to_string(row.epoch) + "/" + std::to_string(run_.max_epochs) +
                        (last_train_.empty() ? "" : "  " + last_train_) + "  val " + join(row.values);
      const auto timed = line + "  " + clock(seconds_since(epoch_started_));
      print(static_cast<int>(timed.size()) <= terminal_width() ? timed : line);
      epoch_started_ = last_line_ = Clock::now();
    }
  }

  void progress(const ddprun::RunProgress& progress) override {
    if (!live_) return;
    const auto label = "epoch " + std::to_string(progress.epoch) + "/" + std::to_string(run_.max_epochs) +
                       (progress.phase == "train" ? "" : " " + progress.phase);
    std::string detail;
    if (progress.samples_per_second > 0) {
      const auto left = static_cast<double>((run_.max_steps - progress.step) * run_.global_batch);
      detail = grouped(static_cast<int64_t>(progress.samples_per_second)) + "/s, " +
               clock(left / progress.samples_per_second) + " left  " + last_train_;
    }
    bar_.draw(label, progress.step_in_epoch, run_.steps_per_epoch, detail);
  }

  // The last one is shown at the end: the test's, where there is a test.
  void confusion(const ddprun::ConfusionTable& table) override { confusion_ = table; }

  void text(const std::string& line) override { print(line); }

  void finish(const ddprun::RunEnd& end) override {
    print("");
    print("Training Summary");
    row("status", end.status + ": " + end.stop_reason);
    row("total time", duration(end.total_seconds) + ", of it " + duration(end.train_seconds) + " in training steps");
    row("throughput", grouped(static_cast<int64_t>(end.samples_per_second)) + " samples/s");
    row("nodes x workers",
        std::to_string(end.nodes) + " x " + std::to_string(end.world_size / std::max<int64_t>(1, end.nodes)));
    char epochs[32];
    std::snprintf(epochs, sizeof epochs, "%.4g", end.epochs);
    row("steps", grouped(end.steps) + " (" + epochs + " epochs, " + grouped(end.samples) + " samples)");
    if (!end.best.empty()) row("best", join(end.best));
    if (end.test_total > 0) {
      char percent[32];
      std::snprintf(percent, sizeof percent, "%.2f %%",
                    100.0 * static_cast<double>(end.test_correct) / static_cast<double>(end.test_total));
      row("test", grouped(end.test_correct) + " of " + grouped(end.test_total) + " correct (" + percent + ")");
    }
    if (confusion_) show_confusion(*confusion_);
    if (!end.checkpoint.empty()) row("checkpoint", end.checkpoint);
    row("run folder", run_.run_dir.string());
    if (end.status == "preempted") print("go on with: ddprun resume " + run_.run_dir.string());
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double seconds_since(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  }

  void show_confusion(const ddprun::ConfusionTable& table) {
    constexpr size_t kPairs = 5, kClasses = 20, kValueWidth = 60;
    const bool some = table.class_names.size() > kClasses;
    rows("most confused", worst_confusions(table, kPairs));
    rows(some ? "worst classes" : "correct by class", class_accuracies(table, kClasses, kValueWidth));
  }

  void rows(const char* name, const std::vector<std::string>& values) {
    for (const auto& value : values) row(&value == &values.front() ? name : "", value);
  }

  void row(const char* name, const std::string& value) {
    char padded[32];
    std::snprintf(padded, sizeof padded, "  %-17s", name);
    print(padded + value);
  }

  void print(const std::string& line) {
    bar_.clear();
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  double every_;
  bool live_ = false;
  ddprun::RunStart run_;
  std::string last_train_;
  std::optional<ddprun::ConfusionTable> confusion_;
  ProgressBar bar_;
  Clock::time_point started_, epoch_started_, last_line_;
};

}  // namespace

DDPRUN_LOGGER(Console, "console", "progress and summary on standard output")

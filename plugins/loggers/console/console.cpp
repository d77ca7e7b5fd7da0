// SPDX-License-Identifier: MIT
// The console view of a run: a progress bar if standard output is a terminal and plain lines otherwise, one line per
// evaluation, and the Training Summary at the end, which names the page that has the tables.
#include "evaluation_table.h"
#include "progress_bar.h"
#include "shown_text.h"
#include "step_times.h"
#include "terminal_text.h"

#include <ddprun/logger.h>

#include <stdio_ext.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace {

using namespace ddprun::console;
using ddprun::shown;  // in addition to the overloads below

// True for the rows that people compare; the others are in the table or the bar.
bool is_result(const std::string& name) {
  return name != "lr" && !name.starts_with("lr_") && !name.ends_with("_per_second") &&
         name != "mfu" &&  // lr_1: a group's
         name != "train_seconds" && name != "evaluation_seconds";
}

// Pads to the widest usual value, 9.805e-04; otherwise columns would grow and the header be printed again.
std::string in_column(const std::string& value) {
  return std::string(9 - std::min<size_t>(value.size(), 9), ' ') + value;
}

std::string join(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (is_result(name)) text += (text.empty() ? "" : "  ") + metric(name, value);
  }
  return text;
}

std::string status_text(const std::string& status) {
  if (status == "preempted") return painted(status, Colour::kStrong);
  const bool good = status == "completed" || status == "stopped_early";
  return painted(shown(status), good ? Colour::kGood : Colour::kBad);
}

// Escapes the names, which come from the experiment, the model or someone else's run, and must not control the
// terminal.
ddprun::RunStart shown(ddprun::RunStart run) {
  for (auto* name : {&run.name, &run.model, &run.dataset, &run.optimizer, &run.device}) *name = shown(*name);
  run.run_dir = shown(run.run_dir.string());
  return run;
}

Values shown(Values values) {
  for (auto& [name, value] : values) name = shown(name);
  return values;
}

std::optional<double> find(const Values& values, const char* wanted) {
  for (const auto& [name, value] : values) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

class Console final : public ddprun::Logger {
 public:
  explicit Console(ddprun::Options& options)
      : lines_(options.has("every")),
        every_(options.get<double>("every", 30,
                                   "seconds between training lines; 0: one every trainer.log_every steps. If it is "
                                   "not given, a terminal shows a bar and no lines",
                                   {.min = 0})) {}

  bool only_shows() const override { return true; }

  void start(const ddprun::RunStart& run) override {
    run_ = shown(run);
    live_ = is_live_terminal();
    times_ = StepTimes(run_.resumed_step);
    last_line_ = Clock::now();
    print_items(run_.name + ": " + run_.model + " (" + grouped(run_.parameters) + " parameters) on " + run_.dataset +
                " with " + run_.optimizer + ", " + workers_text());
    if (run_.train_samples > 0) print_items(samples_text());
    print_items("global batch " + grouped(run_.global_batch) + ", " + counted(run_.steps_per_epoch, "step") +
                " per epoch, " + counted(run_.max_steps, "step") + " at most; run folder " + path_text(run_.run_dir));
    if (run_.resumed_step > 0) print("resumed at step " + grouped(run_.resumed_step));
  }

  void metrics(const ddprun::MetricRow& row) override {
    if (row.split == "train") {
      show_part();
      train_ = shown(row.values);
      show_training(row);
    } else if (row.split == "epoch") {
      show_part();
      part_ = row;
    } else if (row.split == "val") {
      show_part(shown(row.values));
    } else if (row.split == "system") {
      gpu_memory_ = find(row.values, "gpu_memory_bytes");
      times_.add(row);
    }
  }

  void progress(const ddprun::RunProgress& progress) override {
    if (progress.phase == "train") show_part();
    if (!live_) return;
    const auto label = "epoch " + std::to_string(progress.epoch) + "/" + std::to_string(run_.max_epochs) +
                       (progress.phase == "train" ? "" : " " + progress.phase);
    std::string detail;
    if (progress.samples_per_second > 0) {
      const auto left = static_cast<double>((run_.max_steps - progress.step) * run_.global_batch);
      detail = clock(left / progress.samples_per_second) + " left  " + speed_text(progress.samples_per_second) + "  " +
               join(train_);
      if (const auto rate = find(train_, "lr")) detail += "  " + metric("lr", *rate);
      if (gpu_memory_) detail += "  " + memory(*gpu_memory_);
    }
    bar_.draw(label, progress.step_in_epoch, run_.steps_per_epoch, detail);
  }

  void confusion(const ddprun::ConfusionTable&) override { tables_.insert("confusion"); }
  void predictions(const ddprun::PredictionTable&) override { tables_.insert("predictions"); }
  void histograms(const ddprun::HistogramTable&) override { tables_.insert("histograms"); }

  void finish(const ddprun::RunEnd& end) override {
    show_part();
    print("");
    print(painted("Training Summary", Colour::kStrong));
    row("status", status_text(end.status) + ": " + shown(end.stop_reason));
    row("total time", duration(end.total_seconds) + ", of it " + duration(end.train_seconds) + " in training steps");
    row("throughput", throughput_text(end));
    if (end.model_flops_per_second > 0) row("model FLOP/s", work_text(end));
    if (const auto phases = times_.phases(); !phases.empty()) row("a step", phases);
    if (const auto slowest = times_.slowest(); !slowest.empty()) row("slowest", slowest);
    row("nodes x workers", world_text(end.world_size, std::max<int64_t>(1, end.nodes)));
    row("steps", grouped(end.steps) + " (" + epochs_text(end.epochs) + ", " + counted(end.samples, "sample") + ")");
    if (!end.best.empty()) show_best(end);
    show_tests(end);
    if (!end.checkpoint.empty()) row("checkpoint", shown(path_text(end.checkpoint)));
    row("run folder", path_text(run_.run_dir));
    show_page(end.metrics);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double seconds_since(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  }

  // Shows the metric that `best` follows first, even if it is that of a class.
  void show_best(const ddprun::RunEnd& end) {
    auto best = end.best;
    std::erase_if(best, [](const auto& value) { return value.first.starts_with("test/"); });
    leave_out_classes(best, "val/");
    if (best.empty() || best.front().first != end.best.front().first) best.insert(best.begin(), end.best.front());
    row("best", painted(place_text(end.best_step) + join(shown(best)), Colour::kStrong));
  }

  // Names the page with what is too long for a terminal, if there is any.
  void show_page(Values metrics) {
    if (leave_out_classes(metrics, "test/") || leave_out_classes(metrics, "val/")) tables_.insert("metrics by class");
    std::string kinds;
    for (const auto& kind : tables_) kinds += (kinds.empty() ? "" : ", ") + kind;
    if (!kinds.empty()) row("tables", kinds + ": " + path_text(run_.run_dir / "report.html"));
  }

  // Shows the tests of the best checkpoint and of the last, or the one test if these are the same.
  void show_tests(const ddprun::RunEnd& end) {
    const bool best_is_last = end.best_step == end.steps;
    const auto best = best_is_last ? "" : test_text(end.best, end.test_total);
    const auto last = test_text(end.metrics, end.test_total);
    if (!best.empty()) row("test, best", place_text(end.best_step) + best);
    if (!last.empty()) row("test, last", place_text(end.steps, best_is_last ? ", the best too" : "") + last);
  }

  // Returns the number of correct samples and the test's other metrics, and its loss if the task has no right and
  // wrong; empty if there was no test.
  static std::string test_text(Values metrics, int64_t total) {
    std::string counted;
    if (const auto accuracy = find(metrics, "test/accuracy"); accuracy && total > 0) {
      char percent[32];
      std::snprintf(percent, sizeof percent, "%.2f %%", 100.0 * *accuracy);
      const auto correct = std::llround(*accuracy * static_cast<double>(total));
      counted = grouped(correct) + " of " + grouped(total) + " correct (" + percent + ")";
    }
    leave_out_classes(metrics, "test/");
    Values values;
    for (const auto& [name, value] : metrics) {
      const bool shown_above = !counted.empty() && (name == "test/accuracy" || name == "test/loss");
      if (name.starts_with("test/") && !shown_above) values.emplace_back(shown(name), value);
    }
    return counted + (counted.empty() || values.empty() ? "" : "  ") + join(values);
  }

  // Returns "1,234/s", of samples, or "5,678 tokens/s" where the last row has them.
  std::string speed_text(double samples_per_second) const {
    const auto tokens = find(train_, "tokens_per_second");
    if (tokens) return grouped(static_cast<int64_t>(*tokens)) + " tokens/s";
    return grouped(static_cast<int64_t>(samples_per_second)) + "/s";
  }

  static std::string throughput_text(const ddprun::RunEnd& end) {
    const auto samples = grouped(static_cast<int64_t>(end.samples_per_second)) + " samples/s";
    if (end.tokens_per_second == 0) return samples;
    return grouped(static_cast<int64_t>(end.tokens_per_second)) + " tokens/s, " + samples;
  }

  // Returns "812 TFLOP/s, 203 TFLOP/s on each of 4 devices; MFU 41.2 %".
  std::string work_text(const ddprun::RunEnd& end) const {
    auto text = operations(end.model_flops_per_second);
    if (end.world_size > 1)
      text += ", " + operations(end.model_flops_per_second / static_cast<double>(end.world_size)) + " on each of " +
              std::to_string(end.world_size) + " workers";
    if (end.mfu > 0) return text + "; MFU " + share_text(end.mfu);
    return text + (run_.device == "cpu" ? "" : "; for MFU, trainer.peak_tflops says what this GPU can reach");
  }

  // Returns "epoch 3: ", or "step 150: " within an epoch; a note precedes the colon.
  std::string place_text(int64_t step, const std::string& note = "") const {
    if (step == 0) return "";
    const auto epoch = std::max<int64_t>(1, run_.steps_per_epoch);
    const auto place = step % epoch == 0 ? "epoch " + std::to_string(step / epoch) : "step " + grouped(step);
    return place + note + ": ";
  }

  // Returns "4 workers on 2 nodes (2 each), on cuda over nccl".
  std::string workers_text() const {
    auto text = std::to_string(run_.world_size) + (run_.world_size == 1 ? " worker" : " workers");
    if (run_.nodes > 1) {
      const bool even = run_.world_size % run_.nodes == 0;
      text += " on " + std::to_string(run_.nodes) + " nodes" +
              (even ? " (" + std::to_string(run_.world_size / run_.nodes) + " each)," : ",");
    }
    return text + " on " + run_.device + (run_.backend.empty() ? "" : " over " + run_.backend);
  }

  // Returns "55,000 train, 5,000 val, 10,000 test samples of 1 x 28 x 28, 10 classes".
  std::string samples_text() const {
    std::string text = grouped(run_.train_samples) + " train";
    if (run_.val_samples > 0) text += ", " + grouped(run_.val_samples) + " val";
    if (run_.test_samples > 0) text += ", " + grouped(run_.test_samples) + " test";
    text += " samples";
    for (size_t i = 0; i < run_.sample_shape.size(); ++i)
      text += (i == 0 ? " of " : " x ") + std::to_string(run_.sample_shape[i]);
    return text + (run_.classes > 0 ? ", " + grouped(run_.classes) + " classes" : "");
  }

  // Returns " (10/20)", the step within its epoch.
  std::string step_of_epoch(const ddprun::MetricRow& row) const {
    if (run_.steps_per_epoch <= 0) return "";
    return " (" + grouped(row.step - (row.epoch - 1) * run_.steps_per_epoch) + "/" + grouped(run_.steps_per_epoch) +
           ")";
  }

  void show_training(const ddprun::MetricRow& row) {
    if ((live_ && !lines_) || seconds_since(last_line_) < every_) return;
    print("epoch " + std::to_string(row.epoch) + "/" + std::to_string(run_.max_epochs) + "  step " + grouped(row.step) +
          step_of_epoch(row) + "  " + join(shown(row.values)));
    last_line_ = Clock::now();
  }

  // Shows the means of an epoch, or of the steps between two evaluations, with those of the evaluation that followed,
  // if any.
  void show_part(const Values& evaluation = {}) {
    if (!part_) return;
    const auto& part = *part_;
    EvaluationTable::Row cells{{"epoch", std::to_string(part.epoch) + "/" + std::to_string(run_.max_epochs)},
                               {"step", grouped(part.step)}};
    const auto add = [&](const std::string& split, Values values) {
      leave_out_classes(values, "");
      for (const auto& [name, value] : values) {
        if (is_result(name)) cells.emplace_back(split + name, in_column(metric_value(name, value)));
      }
    };
    add("", shown(part.values));
    add("val ", evaluation);
    if (const auto rate = find(part.values, "lr")) cells.emplace_back("lr", in_column(metric_value("lr", *rate)));
    if (const auto tokens = find(part.values, "tokens_per_second"))
      cells.emplace_back("tokens/s", grouped(static_cast<int64_t>(*tokens)));
    else if (const auto speed = find(part.values, "samples_per_second"))
      cells.emplace_back("samples/s", grouped(static_cast<int64_t>(*speed)));
    if (const auto time = find(part.values, "evaluation_seconds")) cells.emplace_back("val time", part_time(*time));
    if (const auto time = find(part.values, "train_seconds")) cells.emplace_back("time", part_time(*time));
    const auto lines = evaluations_.add(std::move(cells), static_cast<size_t>(terminal_width()));
    if (lines.size() > 1) print(painted(lines.front(), Colour::kStrong));
    print(lines.back());
    part_.reset();
    last_line_ = Clock::now();
  }

  void row(const std::string& name, const std::string& value) {
    constexpr size_t kColumn = 17;
    const auto head = "  " + name + std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ');
    print_items(value, head, head.size());
  }

  // Prints lines that fit the terminal, with `head` before the first one.
  void print_items(const std::string& text, std::string head = "", size_t indent = 0) {
    const auto width = static_cast<size_t>(terminal_width());
    for (const auto& line : broken_lines(text, width > indent ? width - indent : 1)) {
      print(head + line);
      head.assign(indent, ' ');
    }
  }

  // A reader that goes away (`| head`) has seen enough; a full disk is reported.
  void print(const std::string& line) {
    bar_.clear();
    std::printf("%s\n", line.c_str());
    if (std::fflush(stdout) == 0 || errno == EPIPE) return;
    const int error = errno;
    ::__fpurge(stdout);  // the line comes once more, when it is tried again
    throw std::system_error(error, std::generic_category(), "cannot write to standard output");
  }

  bool lines_;  // print lines even with a terminal's bar
  double every_;
  bool live_ = false;
  ddprun::RunStart run_;
  Values train_;                           // of the last row
  std::optional<ddprun::MetricRow> part_;  // not shown yet: its evaluation may follow
  std::optional<double> gpu_memory_;
  StepTimes times_;
  EvaluationTable evaluations_;
  std::set<std::string> tables_;  // kinds that other loggers keep and that the page shows
  ProgressBar bar_;
  Clock::time_point last_line_;
};

}  // namespace

DDPRUN_LOGGER(Console, "console", "progress and summary on standard output")

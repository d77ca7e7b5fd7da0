// SPDX-License-Identifier: MIT
// `ddprun watch RUN`: shows what the run's own terminal shows, by feeding a logger (the console by default) from the
// run's files as they grow.
#include "agent/chosen_checkpoint.h"
#include "agent/run_end.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "metrics/run_summary.h"
#include "plugin_host/plugin_host.h"
#include "runs/json_lines.h"
#include "runs/lr_suggestion.h"
#include "runs/run_state.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr auto kPause = std::chrono::milliseconds(300);

// Reads the complete lines that a growing file has gained since the last call.
class Follower {
 public:
  explicit Follower(fs::path file) : file_(std::move(file)) {}

  template <class Take>
  void read(const Take& take) {
    LineReader reader(file_, offset_);
    while (reader.next() && reader.ended()) {
      take(reader.line());
      offset_ = reader.end();
    }
  }

 private:
  fs::path file_;
  uint64_t offset_ = 0;
};

class Watch {
 public:
  Watch(fs::path run, const std::string& logger)
      : run_(std::move(run)), metrics_(run_ / "metrics.jsonl"), tables_(run_ / "tables.jsonl") {
    const PluginHost host(plugin_search_path({}));
    logger_ = host.make_logger({.plugin = logger, .options = Value::map(), .path = "--logger"});
  }

  // Returns the run's status at its end.
  RunStatus to_the_end() {
    while (true) {
      const auto state = read_run_state(run_);  // before the files: a run that has ended writes no more
      look();
      if (state.status != RunStatus::kRunning) return finish(state);
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  void look() {
    const auto start = read_run_start(run_);
    if (start && (!started_ || start->attempt != start_.attempt)) {
      start_ = *start;
      started_ = true;
      logger_->start(start_);
    }
    if (!started_) return;
    tables_.read([this](std::string_view line) { show_table(line); });
    metrics_.read([this](std::string_view line) { show_row(line); });
    if (last_.step > 0) logger_->progress(last_);
  }

  void show_row(std::string_view line) {
    const auto object = FlatObject::parse(line);
    if (!object || object->integer("attempt") != start_.attempt) return;
    MetricRow row{.time = object->number("time"),
                  .split = std::string(object->text("split")),
                  .epoch = object->integer("epoch"),
                  .step = object->integer("step"),
                  .samples = object->integer("samples")};
    for (const auto& [name, value] : object->numbers) {
      const bool known = name == "time" || name == "attempt" || name == "epoch" || name == "step" || name == "samples";
      if (!known) row.values.emplace_back(name, value);
    }
    logger_->metrics(row);
    if (row.split != "train") return;
    const auto steps = std::max<int64_t>(start_.steps_per_epoch, 1);
    last_ = {row.epoch, row.step, (row.step - 1) % steps + 1, "train", object->number("samples_per_second")};
  }

  // Passes over a table that is not as the jsonl logger writes it, as over such a row.
  void show_table(std::string_view line) try {
    const auto json = parse_recorded_json(line);
    if (json.at("attempt") != start_.attempt || json.at("kind") != "ranks") return;
    RankTable table{.time = json.at("time"), .epoch = json.at("epoch")};
    json.at("columns").get_to(table.columns);
    for (const auto& row : json.at("rows")) {
      table.rows.emplace_back();
      for (const auto& value : row) table.rows.back().push_back(value.is_number() ? value.get<double>() : std::nan(""));
    }
    logger_->ranks(table);
  } catch (const nlohmann::json::exception&) {
  }

  RunStatus finish(const RunState& state) {
    if (!started_)
      throw UserError(
          run_.string() +
          " has no run.json and metrics.jsonl: they come from the logger jsonl, which its experiment does not use");
    auto end = state.summary.is_null() ? recorded_end(run_).end : read_run_end(run_);
    if (state.summary.is_null()) end.stop_reason = "no process is running it, and it did not end normally";
    logger_->finish(end);
    const auto status = enum_of<RunStatus>(end.status);
    const bool over = has_trained_to_the_end(status);
    if (status == RunStatus::kPreempted || (!over && !end.checkpoint.empty()))
      tell_how_to_resume(run_, is_range_test(run_));
    return state.status;
  }

  fs::path run_;
  Follower metrics_, tables_;
  std::shared_ptr<Logger> logger_;
  bool started_ = false;
  RunStart start_;
  RunProgress last_;
};

}  // namespace

int watch(const Arguments& arguments) {
  const auto status = Watch(existing_run(arguments.target), arguments.logger).to_the_end();
  const bool good = has_trained_to_the_end(status) || status == RunStatus::kPreempted;
  return good ? kExitDone : kExitFailed;
}

}  // namespace ddprun

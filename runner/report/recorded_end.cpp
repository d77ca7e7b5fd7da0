// SPDX-License-Identifier: MIT
#include "report/recorded_end.h"

#include "report/checkpoint_list.h"
#include "report/config_lines.h"
#include "report/flat_object.h"
#include "report/line_reader.h"
#include "report/run_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using MetricValues = std::vector<std::pair<std::string, double>>;

// Excludes the columns of a row that were not measured on the model.
bool is_metric(std::string_view name) {
  constexpr auto kOthers = std::to_array<std::string_view>({"time", "attempt", "epoch", "step", "samples", "lr",
                                                            "samples_per_second", "loss_scale", "overflows",
                                                            "skipped_steps", "train_seconds", "evaluation_seconds"});
  return std::ranges::find(kOthers, name) == kOthers.end() && !name.starts_with("lr_");
}

MetricValues metrics_of(const FlatObject& row) {
  MetricValues values;
  for (const auto& [name, value] : row.numbers) {
    if (is_metric(name)) values.emplace_back(std::string(row.text("split")) + "/" + name, value);
  }
  return values;
}

void update(MetricValues& values, const MetricValues& changes) {
  for (const auto& change : changes) {
    const auto at = std::ranges::find(values, change.first, &MetricValues::value_type::first);
    at == values.end() ? values.push_back(change) : void(at->second = change.second);
  }
}

class Rows {
 public:
  Rows(Goal goal, RunEnd& end) : goal_(std::move(goal)), end_(end) {}

  void take(const FlatObject& row) {
    if (row.text("split") == "system" || row.text("split") == "epoch") return;
    const auto samples = row.integer("samples");
    const auto speed = row.number("samples_per_second");
    if (speed > 0 && samples > end_.samples) end_.train_seconds += static_cast<double>(samples - end_.samples) / speed;
    end_.steps = row.integer("step");
    end_.samples = samples;
    end_.epochs = row.number("epoch");
    const auto measured = metrics_of(row);
    update(end_.metrics, measured);
    take_best(measured, end_.steps);
  }

 private:
  void take_best(const MetricValues& measured, int64_t step) {
    const auto at = std::ranges::find(measured, goal_.metric, &MetricValues::value_type::first);
    if (at == measured.end() || !std::isfinite(at->second)) return;
    if (!std::isnan(best_) && (goal_.maximize ? at->second <= best_ : at->second >= best_)) return;
    best_ = at->second;
    end_.best = measured;
    std::rotate(end_.best.begin(), end_.best.begin() + (at - measured.begin()),
                end_.best.begin() + (at - measured.begin()) + 1);
    end_.best_step = step;
  }

  Goal goal_;
  RunEnd& end_;
  double best_ = std::nan("");
};

}  // namespace

RunEnd recorded_end(const fs::path& run_dir) {
  const auto state = read_run_state(run_dir);
  RunEnd end{.status = state.status, .total_seconds = state.seconds, .world_size = state.workers};
  std::vector<std::string> unheard;
  Rows rows(goal_of(read_config(run_dir / "config.yaml", unheard).value_or(Value())), end);
  LineReader reader(run_dir / "metrics.jsonl");
  while (reader.next() && reader.ended()) {
    if (const auto row = FlatObject::parse(reader.line())) rows.take(*row);
  }
  const auto start = read_json_file(run_dir / "run.json");
  const auto number = [&](const char* name) {
    return start.is_object() ? start.value(name, nlohmann::json()) : nullptr;
  };
  if (const auto per_epoch = number("steps_per_epoch"); per_epoch.is_number() && per_epoch > 0)
    end.epochs = static_cast<double>(end.steps) / per_epoch.get<double>();
  if (const auto nodes = number("nodes"); nodes.is_number()) end.nodes = nodes;
  if (end.train_seconds > 0) end.samples_per_second = static_cast<double>(end.samples) / end.train_seconds;
  for (const auto& checkpoint : list_checkpoints(run_dir)) {
    if (checkpoint.last) end.checkpoint = (run_dir / "checkpoints" / checkpoint.name).string();
  }
  return end;
}

}  // namespace ddprun

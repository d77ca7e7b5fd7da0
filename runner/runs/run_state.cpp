// SPDX-License-Identifier: MIT
#include "runs/run_state.h"

#include "base/clock.h"
#include "base/files_below.h"
#include "config/monitors.h"
#include "launch/run_folder.h"
#include "runs/config_lines.h"
#include "runs/json_lines.h"
#include "strict_json.h"

#include <ddprun/files.h>

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <stdexcept>
#include <string_view>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Returns true if somebody holds the folder's lock. Asks for a shared lock and releases it at once, so that two who ask
// do not disturb each other.
bool is_locked(const fs::path& run_dir) {
  const auto fd = open_below(run_dir, ".lock");
  return fd.open() && lock_descriptor(fd.get(), LOCK_SH | LOCK_NB) == LockState::kTaken;
}

// Returns how many attempts have begun; 0 if unknown.
int64_t attempts_begun(const fs::path& run_dir) {
  const auto text = read_below(run_dir, ".attempts");
  int64_t attempts = 0;
  std::from_chars(text.data(), text.data() + text.size(), attempts);
  return attempts;
}

// Returns the attempt that the run's state is that of. While somebody runs it, the newest; afterwards the newest that
// resumed the run and so replaced its environment.json: one that was refused has changed nothing. 0 if unknown.
int64_t attempt_that_counts(const fs::path& run_dir) {
  const auto newest = std::max<int64_t>(attempts_begun(run_dir) - 1, 0);
  if (is_locked(run_dir)) return newest;
  const auto environment = read_json_file(run_dir / "environment.json");
  if (!environment.is_object()) return newest;
  const auto attempt = environment.find("attempt");
  return attempt != environment.end() && attempt->is_number_integer() ? attempt->get<int64_t>() : newest;
}

std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Ignores the summary of an earlier attempt, which does not describe a run that continues.
void read_current_summary(const fs::path& run_dir, RunState& state) {
  const auto text = read_below(run_dir, "summary.json");
  auto summary = parse_recorded_json(text);
  state.has_damaged_summary = !text.empty() && !(summary.is_object() && enum_of<RunStatus>(text_in(summary, "status")));
  if (text.empty() || state.has_damaged_summary) return;
  const auto attempt = summary.find("attempt");
  if (attempt != summary.end() && attempt->is_number_integer() && attempt->get<int64_t>() < state.attempt) return;
  state.summary = std::move(summary);
}

double time_in(const fs::path& environment) {
  const auto json = read_json_file(environment);
  const auto time = json.is_object() ? json.find("time") : json.end();
  return json.is_object() && time != json.end() && time->is_string() ? parse_time_stamp(*time) : 0;
}

int64_t count_rank_logs(const fs::path& run_dir) {
  std::error_code error;
  const auto is_log = [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".log" && entry.path().filename().string().starts_with("rank_");
  };
  return std::count_if(fs::directory_iterator(run_dir / "logs", error), {}, is_log);
}

double number_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

int64_t count_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::optional<double> metric_in(const nlohmann::json& summary, const char* object, const std::string& name) {
  const auto found = summary.find(object);
  if (found == summary.end() || !found->is_object()) return std::nullopt;
  const auto value = found->find(name);
  return value != found->end() && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

// Only val/ metrics choose a checkpoint; `best` has the test of that one, too.
void take_best(const nlohmann::json& summary, const Goal& goal, RunState& state) {
  const auto found = summary.find("best");
  if (found == summary.end() || !found->is_object()) return;
  auto best = found->find(goal.metric);
  if (best == found->end()) best = found->find("val/loss");
  for (auto one = found->begin(); one != found->end() && best == found->end(); ++one) {
    if (!one.key().starts_with("test/")) best = one;
  }
  if (best == found->end()) return;
  state.best_name = best.key();
  state.best = metric_in(summary, "best", state.best_name);
}

// Without a validation split there may be a test, but nothing was chosen by it.
void take_tests(const nlohmann::json& summary, const Goal& goal, RunState& state) {
  const auto& chosen = state.best_name.empty() ? goal.metric : state.best_name;
  const auto name = "test/" + chosen.substr(chosen.find('/') + 1);
  state.test_best = metric_in(summary, "best", name);
  state.test_last = metric_in(summary, "metrics", name);
}

void read_summary(const Goal& goal, RunState& state) {
  state.status = enum_of<RunStatus>(text_in(state.summary, "status")).value_or(state.status);
  state.reason = text_in(state.summary, "stop_reason");
  state.steps = count_in(state.summary, "steps");
  state.epochs = number_in(state.summary, "epochs");
  state.seconds = number_in(state.summary, "total_seconds");
  state.workers = count_in(state.summary, "world_size");
  take_best(state.summary, goal, state);
  take_tests(state.summary, goal, state);
}

// Reads a run without a summary from its rows: only those of the given split, and the last one. Returns the last one's
// time.
double read_progress(const fs::path& file, const Goal& goal, RunState& state) {
  const auto slash = goal.metric.find('/');
  const auto split = "\"" + goal.metric.substr(0, slash) + "\"";
  const auto name = slash == std::string::npos ? goal.metric : goal.metric.substr(slash + 1);
  uint64_t last = 0;
  Merit best;
  LineReader reader(file);
  while (reader.next()) {
    if (!reader.ended()) break;
    last = reader.offset();
    if (reader.line().find(split) == std::string_view::npos) continue;
    const auto row = FlatObject::parse(reader.line());
    const auto value = row ? row->number(name, std::nan("")) : std::nan("");
    if (!std::isfinite(value)) continue;
    if (is_better({.value = value}, best, goal.maximize)) best.value = value;
    state.best = best.value;
    state.best_name = goal.metric;
  }
  LineReader again(file, last);
  const auto row = again.next() ? FlatObject::parse(again.line()) : std::nullopt;
  if (!row) return 0;
  state.steps = row->integer("step");
  state.epochs = row->number("epoch");
  return row->number("time");
}

}  // namespace

nlohmann::json parse_recorded_json(std::string_view text) try {
  constexpr size_t kMostDepth = 32;  // the metrics and tables of a run nest 5 levels
  return parse_strict_json(text, kMostDepth);
} catch (const std::exception&) {
  return nullptr;
}

nlohmann::json read_json_file(const fs::path& file) {
  return parse_recorded_json(read_below(file.parent_path(), file.filename()));
}

int64_t recorded_count(const nlohmann::json& value) {
  if (!value.is_number_integer()) throw std::runtime_error("a count was expected");
  return value.get<int64_t>();
}

RunState read_run_state(const fs::path& run_dir) {
  std::vector<std::string> unheard;
  const auto config = read_config(run_dir / "config.yaml", unheard).value_or(Value());
  RunState state{.name = value_at(config, {"name"}, run_dir.filename().string())};
  state.attempt = attempt_that_counts(run_dir);
  read_current_summary(run_dir, state);
  if (const auto place = kept_elsewhere(run_dir)) {
    state.status = RunStatus::kElsewhere;
    state.reason = "the run is kept at " + *place + "; here are only this node's logs";
    return state;
  }
  const auto goal = goal_of(config);
  state.maximize = goal.maximize;
  const auto attempt_started = time_in(run_dir / "environment.json");
  const auto first_started = time_in(run_dir / "environment.attempt_0.json");
  state.started = first_started > 0 ? first_started : attempt_started;
  if (!state.summary.is_null()) read_summary(goal, state);
  if (state.summary.is_null() || state.steps == 0) {
    const auto last_time = read_progress(run_dir / "metrics.jsonl", goal, state);
    if (state.summary.is_null()) {
      state.status = is_locked(run_dir) ? RunStatus::kRunning : RunStatus::kInterrupted;
      const auto until = state.status == RunStatus::kRunning ? wall_seconds() : last_time;
      if (attempt_started > 0) state.seconds = std::max(until - attempt_started, 0.0);
    }
  }
  if (state.workers == 0) state.workers = count_rank_logs(run_dir);
  return state;
}

namespace {

namespace fs = std::filesystem;
using MetricValues = std::vector<std::pair<std::string, double>>;

// Excludes the columns of a row that were not measured on the model.
bool is_metric(std::string_view name) {
  constexpr auto kOthers =
      std::to_array<std::string_view>({"time", "attempt", "epoch", "step", "samples", "lr", "samples_per_second",
                                       "tokens_per_second", "model_flops_per_second", "mfu", "loss_scale", "overflows",
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
  Rows(Goal goal, RecordedEnd& recorded) : goal_(std::move(goal)), end_(recorded.end), history_(recorded.history) {}

  void take(const FlatObject& row) {
    if (row.text("split") == "system" || row.text("split") == "epoch") return;
    if (const auto attempt = row.integer("attempt"); attempt > attempt_) begin_attempt(attempt, row.integer("step"));
    const auto samples = row.integer("samples");
    const auto speed = row.number("samples_per_second");
    if (speed > 0 && samples > end_.samples) {
      const auto seconds = static_cast<double>(samples - end_.samples) / speed;
      end_.train_seconds += seconds;
      tokens_ += seconds * row.number("tokens_per_second");
      flops_ += seconds * row.number("model_flops_per_second");
    }
    if (end_.train_seconds > 0) {
      end_.tokens_per_second = tokens_ / end_.train_seconds;
      end_.model_flops_per_second = flops_ / end_.train_seconds;
    }
    end_.steps = row.integer("step");
    end_.samples = samples;
    end_.epochs = row.number("epoch");
    const auto measured = metrics_of(row);
    update(end_.metrics, measured);
    take_best(measured, end_.steps);
  }

 private:
  // What an earlier attempt measured beyond the first row of this one comes again.
  void begin_attempt(int64_t attempt, int64_t step) {
    attempt_ = attempt;
    std::erase_if(history_.values, [&](const auto& value) { return value.first > step; });
  }

  void take_best(const MetricValues& measured, int64_t step) {
    const auto at = std::ranges::find(measured, goal_.metric, &MetricValues::value_type::first);
    if (at == measured.end()) return;
    history_.add(goal_.metric, step, at->second);
    if (!std::isfinite(at->second)) return;
    const auto loss = std::ranges::find(measured, "val/loss", &MetricValues::value_type::first);
    const Merit merit{at->second, loss == measured.end() ? std::nan("") : loss->second};
    if (!is_better(merit, best_, goal_.maximize)) return;
    best_ = merit;
    end_.best = measured;
    std::rotate(end_.best.begin(), end_.best.begin() + (at - measured.begin()),
                end_.best.begin() + (at - measured.begin()) + 1);
    end_.best_step = step;
  }

  Goal goal_;
  RunEnd& end_;
  MetricHistory& history_;
  Merit best_;
  double tokens_ = 0, flops_ = 0;
  int64_t attempt_ = 0;
};

}  // namespace

RecordedEnd recorded_end(const fs::path& run_dir) {
  const auto state = read_run_state(run_dir);
  RecordedEnd recorded;
  auto& end = recorded.end;
  end = {.status = std::string(word_of(state.status)), .total_seconds = state.seconds, .world_size = state.workers};
  std::vector<std::string> unheard;
  Rows rows(goal_of(read_config(run_dir / "config.yaml", unheard).value_or(Value())), recorded);
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
  return recorded;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";

bool read_step(std::string_view name, int64_t& step) {
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size();  // rejects step_00000100.tmp
}

uint64_t size_of_files(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto size = entry.is_regular_file(error) && !entry.is_symlink(error) ? entry.file_size(error) : 0;
    if (!error) bytes += size;
  }
  return bytes;
}

double time_saved(const fs::path& folder) {
  struct stat status {};
  const auto manifest = folder / "manifest.json";
  return ::lstat(manifest.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : 0;
}

}  // namespace

std::vector<ListedCheckpoint> list_checkpoints(const fs::path& run_dir) {
  std::vector<ListedCheckpoint> checkpoints;
  std::error_code error;
  const auto folder = run_dir / "checkpoints";
  const auto best = fs::read_symlink(folder / "best", error), last = fs::read_symlink(folder / "last", error);
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    ListedCheckpoint checkpoint{.name = entry.path().filename().string()};
    if (!read_step(checkpoint.name, checkpoint.step) || !entry.is_directory(error) || entry.is_symlink(error)) continue;
    checkpoint.bytes = size_of_files(entry.path());
    checkpoint.saved = time_saved(entry.path());
    checkpoint.best = best == checkpoint.name;
    checkpoint.last = last == checkpoint.name;
    checkpoints.push_back(std::move(checkpoint));
  }
  std::ranges::sort(checkpoints, {}, &ListedCheckpoint::step);
  return checkpoints;
}

nlohmann::ordered_json checkpoint_list_json(const fs::path& run_dir) {
  auto shown = nlohmann::ordered_json::array();
  for (const auto& checkpoint : list_checkpoints(run_dir))
    shown.push_back({{"name", checkpoint.name},
                     {"step", checkpoint.step},
                     {"bytes", checkpoint.bytes},
                     {"saved", checkpoint.saved},
                     {"best", checkpoint.best},
                     {"last", checkpoint.last}});
  return shown;
}

}  // namespace ddprun

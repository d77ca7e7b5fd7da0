// SPDX-License-Identifier: MIT
#include "report/run_state.h"

#include "base/clock.h"
#include "base/spawn.h"
#include "launch/run_folder.h"
#include "report/config_lines.h"
#include "report/flat_object.h"
#include "report/line_reader.h"
#include "strict_json.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Returns true if somebody holds the folder's lock. Asks for a shared lock and releases it at once, so that two who ask
// do not disturb each other.
bool is_locked(const fs::path& run_dir) {
  const UniqueFd fd(::open((run_dir / ".lock").c_str(), O_RDONLY | O_CLOEXEC));
  return fd.open() && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Returns how many attempts have begun; 0 if unknown.
int64_t attempts_begun(const fs::path& run_dir) {
  std::ifstream stream(run_dir / ".attempts");
  int64_t attempts = 0;
  return stream >> attempts ? attempts : 0;
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

// Ignores the summary of an earlier attempt, which does not describe a run that goes on.
nlohmann::json current_summary(const fs::path& run_dir) {
  auto summary = read_json_file(run_dir / "summary.json");
  if (!summary.is_object() || !summary.contains("status") || !summary["status"].is_string()) return nullptr;
  const auto attempt = summary.find("attempt");
  if (attempt != summary.end() && attempt->is_number_integer() &&
      attempt->get<int64_t>() < attempt_that_counts(run_dir))
    return nullptr;
  return summary;
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

std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void take_best(const nlohmann::json& summary, const Goal& goal, RunState& state) {
  const auto found = summary.find("best");
  if (found == summary.end() || !found->is_object() || found->empty()) return;
  auto best = found->find(goal.metric);
  if (best == found->end()) best = found->find("val/loss");
  if (best == found->end()) best = found->begin();
  state.best_name = best.key();
  if (best->is_number()) state.best = best->get<double>();
}

void read_summary(const Goal& goal, RunState& state) {
  state.status = state.summary["status"];
  state.reason = text_in(state.summary, "stop_reason");
  state.steps = count_in(state.summary, "steps");
  state.epochs = number_in(state.summary, "epochs");
  state.seconds = number_in(state.summary, "total_seconds");
  state.workers = count_in(state.summary, "world_size");
  take_best(state.summary, goal, state);
}

// Reads a run without a summary from its rows: only those of the given split, and the last one. Returns the last one's
// time.
double read_progress(const fs::path& file, const Goal& goal, RunState& state) {
  const auto slash = goal.metric.find('/');
  const auto split = "\"" + goal.metric.substr(0, slash) + "\"";
  const auto name = slash == std::string::npos ? goal.metric : goal.metric.substr(slash + 1);
  uint64_t last = 0;
  LineReader reader(file);
  while (reader.next()) {
    if (!reader.ended()) break;
    last = reader.offset();
    if (reader.line().find(split) == std::string_view::npos) continue;
    const auto row = FlatObject::parse(reader.line());
    const auto value = row ? row->number(name, std::nan("")) : std::nan("");
    if (!std::isfinite(value)) continue;
    if (!state.best || (goal.maximize ? value > *state.best : value < *state.best)) state.best = value;
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
  std::ifstream stream(file, std::ios::binary);
  return parse_recorded_json(std::string{std::istreambuf_iterator<char>(stream), {}});
}

int64_t recorded_count(const nlohmann::json& value) {
  if (!value.is_number_integer()) throw std::runtime_error("a count was expected");
  return value.get<int64_t>();
}

RunState read_run_state(const fs::path& run_dir) {
  std::vector<std::string> unheard;
  const auto config = read_config(run_dir / "config.yaml", unheard).value_or(Value());
  RunState state{.name = value_at(config, {"name"}, run_dir.filename().string()), .summary = current_summary(run_dir)};
  if (const auto place = kept_elsewhere(run_dir)) {
    state.status = "elsewhere";
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
      state.status = is_locked(run_dir) ? "running" : "interrupted";
      const auto until = state.status == "running" ? wall_seconds() : last_time;
      if (attempt_started > 0) state.seconds = std::max(until - attempt_started, 0.0);
    }
  }
  if (state.workers == 0) state.workers = count_rank_logs(run_dir);
  return state;
}

}  // namespace ddprun

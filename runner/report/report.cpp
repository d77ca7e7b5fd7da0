// SPDX-License-Identifier: MIT
#include "report/report.h"

#include "base/call_lines.h"
#include "base/clock.h"
#include "base/files_below.h"
#include "base/log.h"
#include "launch/rank_log.h"
#include "report/page.h"
#include "report/tables.h"
#include "runs/config_lines.h"
#include "runs/curves.h"
#include "runs/event_list.h"
#include "runs/json_lines.h"
#include "runs/lr_suggestion.h"
#include "runs/run_json.h"
#include "runs/run_state.h"
#include "runs/table_index.h"

#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/version.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPoints = 3000;            // per curve
constexpr size_t kMostPointsTogether = 60'000;  // for all runs' curves of one metric

bool has_mark(const fs::path& file, std::string_view mark) {
  std::string head(2048, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find(mark) != std::string::npos;
}

void require_ours(const PageKind& kind, const fs::path& out) {
  std::error_code error;
  const auto status = fs::symlink_status(out, error);
  if (!fs::exists(status) || (fs::is_regular_file(status) && has_mark(out, kind.mark()))) return;
  throw UserError(log::text(out.string(), " exists and is not a ", kind.name,
                            " of ddprun; it is not overwritten: choose another name"));
}

std::string title_of(const nlohmann::ordered_json& runs) {
  if (runs.size() > 1) return std::to_string(runs.size()) + " runs";
  return runs[0]["name"].get<std::string>() + " " + runs[0]["folder"].get<std::string>();
}

}  // namespace

void write_report(const fs::path& run_dir) { write_report({run_dir}, run_dir / "report.html"); }

void write_report(const std::vector<fs::path>& run_dirs, const fs::path& out) {
  require_ours(kReportPage, out);
  const auto most_points = std::clamp<size_t>(kMostPointsTogether / run_dirs.size(), 300, kMostPoints);
  auto runs = nlohmann::ordered_json::array();
  for (const auto& run_dir : run_dirs) runs.push_back(recorded_run(run_dir, most_points));
  const auto title = title_of(runs);
  const auto page =
      render_page(title, {{"version", DDPRUN_VERSION}, {"written", wall_seconds()}, {"runs", std::move(runs)}});
  replace_file(out, page);
}

void require_page(const PageKind& kind, const fs::path& out) {
  require_ours(kind, out);
  const auto folder = fs::absolute(out).parent_path();
  if (!fs::is_directory(folder)) throw UserError(out.string() + ": there is no folder " + folder.string());
}

void write_page(const PageKind& kind, const std::string& title, nlohmann::ordered_json sheet, const fs::path& out) {
  require_page(kind, out);
  sheet["command"] = "ddprun " + std::string(kind.command);
  const auto page =
      render_page(title, {{"version", DDPRUN_VERSION}, {"written", wall_seconds()}, {"sheet", std::move(sheet)}}, kind);
  replace_file(out, page);
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Problems = std::vector<std::string>;

Json number_or_null(double value) { return std::isfinite(value) ? Json(short_number(value)) : Json(nullptr); }

// Times are seconds since the run's start, to the millisecond.
Json columns_of(const std::vector<Point>& points, double start) {
  auto steps = Json::array(), times = Json::array(), values = Json::array();
  for (const auto& point : points) {
    steps.push_back(point.step);
    times.push_back(std::round((point.time - start) * 1e3) / 1e3);
    values.push_back(number_or_null(point.value));
  }
  return {{"step", std::move(steps)}, {"time", std::move(times)}, {"value", std::move(values)}};
}

Json shown_curves(const std::vector<Curve>& curves, double start, size_t most_points) {
  auto shown = Json::array();
  for (const auto& curve : curves) {
    const auto thin = downsample(curve.points, most_points);
    const auto lost =
        std::ranges::count_if(curve.points, [](const Point& point) { return !std::isfinite(point.value); });
    shown.push_back({{"split", curve.split},
                     {"name", curve.name},
                     {"count", curve.points.size()},
                     {"nonfinite", lost},
                     {"points", columns_of(thin.points, start)}});
    if (!thin.means.empty()) shown.back()["means"] = columns_of(thin.means, start);
  }
  return shown;
}

// Returns the curve of a range test with what it suggests; null for any other run.
Json shown_range_test(const fs::path& run_dir, const Curves& curves) {
  std::vector<std::string> unheard;  // shown_config() reports them
  const auto found = suggest_lr(read_config(run_dir / "config.yaml", unheard).value_or(Value()), curves);
  if (!found) return nullptr;
  auto lrs = Json::array(), losses = Json::array(), smoothed = Json::array();
  for (const auto& point : found->points) {
    lrs.push_back(number_or_null(point.lr));
    losses.push_back(number_or_null(point.loss));
  }
  for (const auto loss : found->smoothed) smoothed.push_back(number_or_null(loss));
  Json shown{{"lr", std::move(lrs)},
             {"loss", std::move(losses)},
             {"smoothed", std::move(smoothed)},
             {"ceiling", number_or_null(found->ceiling)},
             {"remark", found->remark}};
  if (found->lr)
    shown["suggested"] = {lr_text(*found->lr), lr_text(found->halfway_lr()), lr_text(found->lowest_lr / 10)};
  return shown;
}

Json shown_events(const std::vector<RecordedEvent>& events, double start) {
  auto shown = Json::array();
  for (const auto& event : events)
    shown.push_back({{"time", std::round((event.time - start) * 1e3) / 1e3},
                     {"attempt", event.attempt},
                     {"step", event.step},
                     {"kind", event.kind},
                     {"text", event.text}});
  return shown;
}

// Returns the newest table of a kind for each split. `show` extracts what the page needs from it.
template <class Show>
Json newest_tables(const TableIndex& tables, const char* kind, Problems& problems, const Show& show) {
  auto shown = Json::array();
  for (const auto& line : tables.newest(kind)) {
    try {
      auto one = show(tables.read(line));
      one.update({{"split", line.split}, {"epoch", line.epoch}, {"step", line.step}});
      shown.push_back(std::move(one));
    } catch (const std::exception& error) {
      problems.push_back("tables.jsonl: the table " + line.kind + " of step " + std::to_string(line.step) +
                         " cannot be shown: " + error.what());
    }
  }
  return shown;
}

Json shown_config(const fs::path& run_dir, Problems& problems) {
  const auto file = run_dir / "config.yaml";
  auto lines = Json::array(), values = Json::object();
  for (const auto& line : read_config_lines(file)) lines.push_back({line.text, line.origin});
  if (const auto config = read_config(file, problems)) {
    for (const auto& [path, text] : single_values(*config)) values[path] = text;
  }
  return {{"lines", std::move(lines)}, {"values", std::move(values)}};
}

Json shown_environment(const fs::path& run_dir, Problems& problems) {
  auto environment = recorded_environment(run_dir);
  std::error_code error;
  if (environment.is_null() && fs::exists(run_dir / "environment.json", error))
    problems.push_back("environment.json is not a JSON object");
  return environment;
}

// Returns what the run's dataset said of the files that it found; empty if it kept no account.
std::string account_in(const fs::path& run_dir) {
  const auto form = read_json_file(run_dir / "data.json");
  const auto account = form.is_object() ? form.value("account", nlohmann::json::object()) : nlohmann::json::object();
  const auto text = account.is_object() ? account.find("text") : account.end();
  return account.is_object() && text != account.end() && text->is_string() ? text->get<std::string>() : "";
}

int64_t parameters_of(const fs::path& run_dir) {
  const auto start = read_json_file(run_dir / "run.json");
  const auto found = start.is_object() ? start.find("parameters") : start.end();
  return start.is_object() && found != start.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

Json shown_state(const fs::path& run_dir, const RunState& state) {
  return {{"name", state.name},
          {"folder", run_dir.filename().string()},
          {"path", run_dir.string()},
          {"status", word_of(state.status)},
          {"reason", state.reason},
          {"started", state.started},
          {"seconds", state.seconds},
          {"epochs", state.epochs},
          {"steps", state.steps},
          {"workers", state.workers},
          {"best_name", state.best_name},
          {"best", state.best ? number_or_null(*state.best) : Json(nullptr)},
          {"parameters", parameters_of(run_dir)},
          {"account", account_in(run_dir)},
          {"summary", state.summary}};
}

// Returns the end of the log of the rank that failed first, which the reason names: "rank 3 on node1 failed first:
// ...".
Json last_words(const fs::path& run_dir, const RunState& state) {
  constexpr uint64_t kReadBytes = 64 << 10;
  auto words = Json::array();
  if (state.status != RunStatus::kFailed) return words;
  const auto rank = state.reason.starts_with("rank ") ? std::atoi(state.reason.c_str() + 5) : 0;
  const auto log = fs::path("logs") / ("rank_" + std::to_string(rank) + ".log");
  if (!open_below(run_dir, log).open()) return words;
  const auto size = size_below(run_dir, log);
  LastLines last;
  for (LineReader lines(run_dir, log, size - std::min(size, kReadBytes)); lines.next();) last.add(lines.line());
  for (const auto& line : with_named_calls(last.lines())) words.push_back(line);
  return words;
}

// Says which tracker did not have all of the run at its end (note_unsent() in metrics/run_summary.h).
void report_unsent(const nlohmann::json& summary, Problems& problems) {
  const auto unsent = summary.is_object() ? summary.find("unsent") : summary.end();
  if (unsent == summary.end() || !unsent->is_object()) return;
  const auto text = [](const nlohmann::json& one, const char* name) {
    const auto found = one.is_object() ? one.find(name) : one.end();
    return found != one.end() && found->is_string() ? found->get<std::string>() : std::string("(unknown)");
  };
  for (const auto& [name, one] : unsent->items())
    problems.push_back(name + " did not have all of the run at its end: " + text(one, "problem") +
                       ". Nothing is lost; send the rest with: " + text(one, "command"));
}

// Returns the time of whatever was written first.
double start_of(const RunState& state, const Curves& curves, const std::vector<RecordedEvent>& events) {
  auto start = curves.first_time;
  for (const auto time : {state.started, events.empty() ? 0 : events.front().time})
    if (time > 0 && (start == 0 || time < start)) start = time;
  return start;
}

double steps_per_epoch(const RunState& state, const Curves& curves) {
  const bool known = !state.summary.is_null() && state.epochs > 0 && state.steps > 0;
  return known ? static_cast<double>(state.steps) / state.epochs : curves.steps_per_epoch;
}

}  // namespace

Json recorded_run(const fs::path& run_dir, size_t most_points) {
  Problems problems;
  AttemptStarts starts;
  const auto state = read_run_state(run_dir);
  const auto events = read_events(run_dir / "events.jsonl", starts, problems);
  const auto curves = read_curves(run_dir / "metrics.jsonl", starts, problems);
  const bool began = state.status != RunStatus::kFailed || state.steps > 0;
  if (began && !fs::exists(run_dir / "metrics.jsonl"))
    problems.push_back("metrics.jsonl is missing: the logger jsonl writes it");
  const TableIndex tables(run_dir / "tables.jsonl", starts, problems);
  const auto start = start_of(state, curves, events);
  ImageShelf images(run_dir);
  auto run = shown_state(run_dir, state);
  run["last_words"] = last_words(run_dir, state);
  run["start"] = start;
  run["steps_per_epoch"] = steps_per_epoch(state, curves);
  run["curves"] = shown_curves(curves.curves, start, most_points);
  run["range_test"] = shown_range_test(run_dir, curves);
  run["events"] = shown_events(events, start);
  run["confusions"] = newest_tables(tables, "confusion", problems, shown_confusion);
  run["predictions"] = newest_tables(tables, "predictions", problems,
                                     [&](const nlohmann::json& table) { return shown_predictions(table, images); });
  run["histograms"] = shown_histograms(tables, problems);
  run["config"] = shown_config(run_dir, problems);
  run["overrides"] = read_overrides(run_dir);
  run["environment"] = shown_environment(run_dir, problems);
  run["checkpoints"] = checkpoint_list_json(run_dir);
  images.report(problems);
  report_unsent(state.summary, problems);
  run["problems"] = problems;
  return run;
}

}  // namespace ddprun

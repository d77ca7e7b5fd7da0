// SPDX-License-Identifier: MIT
#include "runs/run_list.h"

#include "base/log.h"
#include "base/nearest_path.h"
#include "base/terminal.h"
#include "runs/config_lines.h"
#include "shown_text.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string_view>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 6;  // outputs/<sweep>/<name>/<time> is 3

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.yaml", error) && fs::is_directory(folder / "logs", error);
}

// What may not be looked into is found, too.
void find_runs(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::error_code error, ignored;
  fs::directory_iterator entry(folder, error);
  if (is_run(folder) || (error && error != std::errc::no_such_file_or_directory)) found.push_back(folder);
  if (is_run(folder) || depth == 0) return;
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) find_runs(entry->path(), depth - 1, found);
  }
}

std::string label_of(const fs::path& run, const fs::path& folder) {
  const auto below = run.lexically_relative(folder);
  return below == "." ? run.filename().string() : below.string();
}

// Runs in one folder are one multirun or sweep, or one user's attempts at the same thing.
void distinguish(std::vector<ListedRun>& runs) {
  std::map<fs::path, std::vector<ListedRun*>> folders;
  for (auto& run : runs) folders[run.path.parent_path()].push_back(&run);
  for (const auto& [folder, beside] : folders) {
    std::vector<Overrides> overrides;
    for (const auto* run : beside) overrides.push_back(run->overrides);
    const auto texts = overrides_apart(overrides);
    for (size_t i = 0; i < beside.size(); ++i) beside[i]->apart = texts[i];
  }
}

std::string status_of(const ListedRun& run) {
  return run.flaw.empty() ? std::string(word_of(run.state.status)) : "unreadable";
}

}  // namespace

ListedRun listed_run(const std::string& label, const fs::path& path) try {
  ListedRun run{.label = label, .path = path, .state = read_run_state(path), .overrides = read_overrides(path)};
  if (run.state.has_damaged_summary)
    run.flaw = (path / "summary.json").string() + ": expected an object with the status of a run; is it damaged?";
  return run;
} catch (const UserError& error) {
  return {.label = label, .path = path, .state = {.name = path.filename().string()}, .flaw = error.what()};
}

std::vector<ListedRun> list_runs(const fs::path& folder) {
  std::error_code error;
  const auto root = fs::canonical(folder, error);
  if (error) throw UserError(folder.string() + ": " + error.message() + did_you_mean(folder));
  fs::directory_iterator(root, error);
  if (error) throw UserError(folder.string() + ": " + error.message());
  std::vector<fs::path> found;
  find_runs(root, kMostDepth, found);
  std::vector<ListedRun> runs;
  for (const auto& path : found) runs.push_back(listed_run(label_of(path, root), path));
  distinguish(runs);
  std::ranges::sort(runs, [](const ListedRun& one, const ListedRun& other) {
    if (one.state.started != other.state.started) return one.state.started > other.state.started;
    return one.label > other.label;
  });
  return runs;
}

nlohmann::ordered_json run_list_json(const std::vector<ListedRun>& runs) {
  using Json = nlohmann::ordered_json;
  auto list = Json::array();
  for (const auto& run : runs) {
    const auto& state = run.state;
    auto best = Json::object();
    if (!state.best_name.empty()) best[state.best_name] = state.best ? Json(*state.best) : Json(nullptr);
    const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
    list.push_back({{"run", run.label},
                    {"path", run.path.string()},
                    {"name", state.name},
                    {"status", status_of(run)},
                    {"stop_reason", run.flaw.empty() ? state.reason : run.flaw},
                    {"epochs", state.epochs},
                    {"steps", state.steps},
                    {"best", std::move(best)},
                    {"test_of_best", number(state.test_best)},
                    {"test_of_last", number(state.test_last)},
                    {"workers", state.workers},
                    {"started", state.started},
                    {"seconds", state.seconds},
                    {"overrides", run.overrides}});
  }
  return list;
}

namespace {

constexpr size_t kColumns = 11;
constexpr size_t kRun = 0, kStatus = 1, kEpochs = 2, kSteps = 3, kBest = 4, kTestBest = 5, kTestLast = 6, kWorkers = 7,
                 kStarted = 8, kOverrides = 10;
constexpr size_t kShortestLabel = 16, kShortestOverrides = 16;
constexpr std::string_view kGap = "  ";
using Cells = std::array<std::string, kColumns>;
using Widths = std::array<size_t, kColumns>;

const Cells kHead = {"RUN",       "STATUS",  "EPOCHS",  "STEPS", "BEST",     "TEST BEST",
                     "TEST LAST", "WORKERS", "STARTED", "TIME",  "OVERRIDES"};

template <class... Parts>
std::string format(const char* pattern, Parts... parts) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, parts...);
  return text;
}

// How much of the best metric's name a cell shows; none if the header shows it.
enum class Naming { kFull, kShort, kNone };

std::string value_text(const std::optional<double>& value) { return value ? format("%.4g", *value) : "-"; }

std::string best_text(const RunState& state, Naming naming) {
  const auto value = value_text(state.best);
  if (!state.best) return value;
  if (naming == Naming::kNone) return value;
  const auto slash = state.best_name.rfind('/');
  const bool full = naming == Naming::kFull || slash == std::string::npos;
  return (full ? state.best_name : state.best_name.substr(slash + 1)) + " " + value;
}

Cells cells_of(const ListedRun& run, Naming naming, double now) {
  const auto& state = run.state;
  return {run.label,
          status_of(run),
          state.epochs > 0 ? format(state.epochs < 100 ? "%.3g" : "%.0f", state.epochs) : "-",
          std::to_string(state.steps),
          best_text(state, naming),
          value_text(state.test_best),
          value_text(state.test_last),
          state.workers > 0 ? std::to_string(state.workers) : "-",
          state.started > 0 ? age_text(now - state.started) : "-",
          state.seconds > 0 ? duration_text(state.seconds) : "-",
          run.apart};
}

// The header is the first row.
Widths widths_of(const std::vector<Cells>& rows) {
  Widths widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

// Adds up the widths, without empty columns.
size_t total(const std::vector<Cells>& rows) {
  size_t sum = 0;
  for (const auto width : widths_of(rows)) sum += width > 0 ? width + kGap.size() : 0;
  return sum - kGap.size();
}

// Returns how wide a column can be beside the others, but at least `least`.
size_t room_for(size_t column, const std::vector<Cells>& rows, size_t columns, size_t least) {
  const auto own = widths_of(rows)[column], all = total(rows);
  return all <= columns ? own : std::max(least, own - std::min(own, all - columns));
}

// Keeps the end, which distinguishes runs: "...ong_name/2026-11-20_12-00-00".
std::string cut_front(const std::string& text, size_t width) {
  if (width_of(text) <= width) return text;
  auto begin = text.size();
  for (size_t kept = 0; begin > 0 && kept < width - 3; ++kept) {
    do {
      --begin;
    } while (begin > 0 && (text[begin] & 0xC0) == 0x80);
  }
  return "..." + text.substr(begin);
}

std::string_view color_of(const std::string& status) {
  if (status == "running") return "\033[36m";
  if (status == "failed" || status == "unreadable") return "\033[31m";
  if (status == "interrupted" || status == "preempted" || status == "elsewhere") return "\033[33m";
  return "\033[32m";
}

std::string line_of(const Cells& cells, const Widths& widths, std::string_view status_color) {
  std::string line;
  for (size_t i = 0; i < kColumns; ++i) {
    if (widths[i] == 0) continue;
    const std::string padding(widths[i] - width_of(cells[i]), ' ');
    const bool left = i == kRun || i == kStatus || i == kOverrides;
    std::string cell(cells[i]);
    if (i == kStatus && !status_color.empty()) cell = std::string(status_color) + cell + "\033[0m";
    line += (i > 0 ? std::string(kGap) : "") + (left ? cell + padding : padding + cell);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

// Returns the name of the best metric, if all runs that have one agree on it.
std::string common_metric(const std::vector<ListedRun>& runs) {
  std::string common;
  for (const auto& run : runs) {
    if (!run.state.best) continue;
    if (!common.empty() && common != run.state.best_name) return "";
    common = run.state.best_name;
  }
  return common;
}

void clear(std::vector<Cells>& rows, std::initializer_list<size_t> columns) {
  for (auto& row : rows) {
    for (const auto column : columns) row[column].clear();
  }
}

std::vector<Cells> rows_of(const std::vector<ListedRun>& runs, Naming naming, double now) {
  std::vector<Cells> rows = {kHead};
  for (const auto& run : runs) rows.push_back(cells_of(run, naming, now));
  const auto is_distinguished = [](const ListedRun& run) { return !run.apart.empty(); };
  if (!std::ranges::any_of(runs, is_distinguished)) rows[0][kOverrides].clear();
  const auto is_tested = [](const ListedRun& run) { return run.state.test_best || run.state.test_last; };
  if (std::ranges::none_of(runs, is_tested)) clear(rows, {kTestBest, kTestLast});
  return rows;
}

// Includes as much of the metric's name as fits.
std::vector<Cells> named_rows(const std::vector<ListedRun>& runs, const ListStyle& style) {
  const auto common = common_metric(runs);
  std::vector<Cells> rows;
  for (const bool full : {true, false}) {
    if (common.empty()) {
      rows = rows_of(runs, full ? Naming::kFull : Naming::kShort, style.now);
    } else {
      rows = rows_of(runs, Naming::kNone, style.now);
      rows[0][kBest] = full ? common : common.substr(common.rfind('/') + 1);
    }
    if (total(rows) <= style.columns) break;
  }
  return rows;
}

void leave_out(std::vector<Cells>& rows, std::initializer_list<size_t> columns, size_t width) {
  for (const auto column : columns) {
    if (total(rows) <= width) return;
    clear(rows, {column});
  }
}

// Fits the rows into the available columns by dropping what matters least first.
std::vector<Cells> fitting_rows(const std::vector<ListedRun>& runs, const ListStyle& style) {
  auto rows = named_rows(runs, style);
  for (auto& row : rows) {
    row[kRun] = shown(row[kRun]);
    row[kOverrides] = shown(row[kOverrides]);
  }
  leave_out(rows, {kSteps, kWorkers}, style.columns);
  if (total(rows) > style.columns) clear(rows, {kTestBest, kTestLast});  // one without the other misleads
  if (!rows[0][kOverrides].empty()) {
    leave_out(rows, {kStarted, kEpochs}, style.columns);
    const auto room = room_for(kOverrides, rows, style.columns, kShortestOverrides);
    for (auto& row : rows) row[kOverrides] = cut_back(row[kOverrides], room);
  }
  const auto room = room_for(kRun, rows, style.columns, kShortestLabel);
  for (auto& row : rows) row[kRun] = cut_front(row[kRun], room);
  return rows;
}

}  // namespace

std::string run_list_text(const std::vector<ListedRun>& runs, const ListStyle& style) {
  if (runs.empty()) return "";
  const auto rows = fitting_rows(runs, style);
  const auto widths = widths_of(rows);
  std::string text;
  for (const auto& row : rows)
    text += line_of(row, widths, style.color && text.size() > 0 ? color_of(row[kStatus]) : std::string_view());
  return text;
}

std::string age_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(seconds, 0.0));
  if (whole < 60) return std::to_string(whole) + " s ago";
  if (whole < 3600) return std::to_string(whole / 60) + " min ago";
  if (whole < 2 * 86400) return std::to_string(whole / 3600) + " h ago";
  return std::to_string(whole / 86400) + " d ago";
}

std::string duration_text(double seconds) {
  if (seconds < 60) return format("%.1fs", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return format("%lldm %02llds", whole / 60LL, whole % 60LL);
  return format("%lldh %02lldm", whole / 3600LL, whole % 3600LL / 60LL);
}

}  // namespace ddprun

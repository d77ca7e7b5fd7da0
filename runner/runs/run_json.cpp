// SPDX-License-Identifier: MIT
#include "runs/run_json.h"

#include "launch/run_folder.h"
#include "runs/config_lines.h"
#include "runs/event_list.h"
#include "runs/run_list.h"
#include "runs/table_index.h"

#include <ddprun/error.h>

#include <charconv>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Problems = std::vector<std::string>;

// Returns numbers and booleans as the options read them, and anything else as text.
Json scalar_of(const std::string& text) {
  if (text == "True" || text == "TRUE") return true;
  if (text == "False" || text == "FALSE") return false;
  auto plain = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (plain.is_number() || plain.is_boolean()) return plain;
  double number = 0;  // JSON has no .5 and no 1.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && text.find('.') != text.npos;
  return is_number ? Json(number) : Json(text);
}

Json json_of(const Value& value) {
  if (value.is_scalar()) return value.quoted() ? Json(value.text()) : scalar_of(value.text());
  Json json = value.is_list() ? Json::array() : value.is_map() ? Json::object() : Json();
  for (const auto& item : value.items()) json.push_back(json_of(item));
  for (const auto& entry : value.entries()) json[entry.key] = json_of(entry.value);
  return json;
}

// Returns what was measured at the best evaluation, the metric that chose it first.
Json best_of(const fs::path& run_dir, const RunState& state) {
  auto best = Json::object();
  if (state.summary.is_null()) {
    for (const auto& [name, value] : recorded_end(run_dir).end.best) best[name] = value;
  } else if (const auto found = state.summary.find("best"); found != state.summary.end() && found->is_object()) {
    if (!state.best_name.empty()) best[state.best_name] = nullptr;
    best.update(Json(*found));
  }
  return best;
}

Json events_of(const std::vector<RecordedEvent>& events) {
  auto list = Json::array();
  for (const auto& event : events)
    list.push_back({{"time", event.time},
                    {"attempt", event.attempt},
                    {"epoch", event.epoch},
                    {"step", event.step},
                    {"kind", event.kind},
                    {"text", event.text}});
  return list;
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string readable_run_json(const fs::path& run_dir, const std::string& rows) {
  const auto listed = listed_run(run_dir.filename().string(), run_dir);
  auto run = run_list_json({listed})[0];
  if (!listed.flaw.empty()) return text_of(run);
  Problems problems;
  AttemptStarts starts;
  const auto config = read_config(run_dir / "config.yaml", problems);
  run["attempt"] = listed.state.attempt;
  run["best"] = best_of(run_dir, listed.state);
  run["summary"] = listed.state.summary;
  run["config"] = config ? json_of(*config) : Json();
  run["environment"] = recorded_environment(run_dir);
  run["start"] = nullptr;
  if (const auto start = read_json_file(run_dir / "run.json"); start.is_object()) run["start"] = start;
  run["events"] = events_of(read_events(run_dir / "events.jsonl", starts, problems));
  run["checkpoints"] = checkpoint_list_json(run_dir);
  std::string lines;
  if (!rows.empty()) {
    const TableIndex metrics(run_dir / "metrics.jsonl", starts, problems, "split");
    lines = rows == "metrics" ? metrics.text("") : TableIndex(run_dir / "tables.jsonl", starts, problems).text(rows);
  }
  run["problems"] = problems;
  auto text = text_of(run);
  if (!rows.empty()) text.replace(text.size() - 1, 1, ",\"" + rows + "\":" + lines + "}");
  return text;
}

}  // namespace

std::string run_json(const fs::path& folder, const std::string& rows) try {
  return readable_run_json(existing_part(folder), rows);
} catch (const UserError& error) {
  return text_of({{"path", folder.string()}, {"status", "unreadable"}, {"stop_reason", error.what()}});
}

Json recorded_environment(const fs::path& run_dir) {
  Json environment = read_json_file(run_dir / "environment.json");
  if (!environment.is_object()) return nullptr;
  if (environment.contains("git") && environment["git"].is_object()) environment["git"].erase("diff");
  return environment;
}

}  // namespace ddprun

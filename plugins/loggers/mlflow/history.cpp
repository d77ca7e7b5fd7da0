// SPDX-License-Identifier: MIT
#include "history.h"

#include "spool.h"

namespace ddprun::mlflow {
namespace {

void add_start(History& history, const Json& start) {
  history.ended.clear();
  for (const auto& [name, value] : start["params"].items()) history.params.emplace(name, value.get<std::string>());
}

void add_row(History& history, const Json& row, int64_t from_step) {
  history.last_time_ms = row["time"].get<int64_t>();
  const auto step = row["step"].get<int64_t>();
  auto split = row["split"].get<std::string>();
  if (step >= from_step || split == "best") history.rows.emplace(std::move(split), step);
}

void add_file(History& history, const Json& file) {
  const auto to = file["to"].get<std::string>();
  if (to.starts_with("images/")) history.images.insert(to);
  if (to.starts_with("tables/")) history.tables.push_back(to);
}

void add(History& history, const Json& line, int64_t from_step) {
  if (line.contains("spool")) history.spool = line["spool"].get<std::string>();
  if (line.contains("start")) add_start(history, line["start"]);
  if (line.contains("row")) add_row(history, line["row"], from_step);
  if (line.contains("file")) add_file(history, line["file"]);
  if (line.contains("end")) history.ended = line["end"]["status"].get<std::string>();
}

}  // namespace

History read_history(const std::filesystem::path& spool, int64_t from_step) {
  History history;
  SpoolReader reader(spool);
  for (auto line = reader.line_at(0); line; line = reader.line_at(line->end)) {
    if (line->json.is_object()) add(history, line->json, from_step);
  }
  return history;
}

}  // namespace ddprun::mlflow

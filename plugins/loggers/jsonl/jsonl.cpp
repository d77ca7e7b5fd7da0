// SPDX-License-Identifier: MIT
// metrics.jsonl: one JSON object a line, the record that scripts follow. Resumed runs append; rows of an attempt that was cut
// off come again with a higher "attempt", and the last one of a step counts. tables.jsonl, beside it where there are any, has
// the confusion matrices and predictions in the same way, each with its "kind"; images are left to other loggers.
#include <ddprun/error.h>
#include <ddprun/logger.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace {

class JsonLines final : public ddprun::Logger {
 public:
  explicit JsonLines(ddprun::Options& options)
      : file_name_(options.get<std::string>("file", "metrics.jsonl", "name of the file in the run folder")),
        table_file_name_(
            options.get<std::string>("tables", "tables.jsonl", "the same for confusion matrices and predictions")) {}

  void start(const ddprun::RunStart& run) override {
    attempt_ = run.attempt;
    run_dir_ = run.run_dir;
    open(file_, file_name_);
  }

  void metrics(const ddprun::MetricRow& row) override {
    nlohmann::ordered_json line{{"time", row.time},   {"attempt", attempt_}, {"split", row.split},
                                {"epoch", row.epoch}, {"step", row.step},    {"samples", row.samples}};
    auto nonfinite = nlohmann::ordered_json::array();
    for (const auto& [name, value] : row.values) {
      if (std::isfinite(value)) {
        line[name] = value;
      } else {
        line[name] = nullptr;
        nonfinite.push_back(name);
      }
    }
    if (!nonfinite.empty()) line["nonfinite"] = nonfinite;
    append(file_, file_name_, line);
  }

  void confusion(const ddprun::ConfusionTable& table) override {
    auto counts = Json::array();
    const auto classes = static_cast<std::ptrdiff_t>(table.class_names.size());
    for (auto row = table.counts.begin(); row != table.counts.end(); row += classes) {
      counts.push_back(std::vector<int64_t>(row, row + classes));
    }
    append_table("confusion", table, {{"counts", std::move(counts)}});
  }

  void predictions(const ddprun::PredictionTable& table) override {
    auto rows = Json::array();
    for (const auto& row : table.rows) {
      Json one{{"id", row.id}};
      if (table.class_names.empty()) {
        one["truth"] = row.true_values;
      } else {
        one["truth"] = row.truth;
        one["guess"] = row.guess;
      }
      one["scores"] = row.scores;
      rows.push_back(std::move(one));
    }
    append_table("predictions", table, {{"rows", std::move(rows)}});
  }

 private:
  using Json = nlohmann::ordered_json;

  template <class Table>
  void append_table(const char* kind, const Table& table, const Json& content) {
    Json line{{"kind", kind},         {"attempt", attempt_}, {"split", table.split},
              {"epoch", table.epoch}, {"step", table.step},  {"classes", table.class_names}};
    line.update(content);
    if (!table_file_.is_open()) open(table_file_, table_file_name_);
    append(table_file_, table_file_name_, line);
  }

  void open(std::ofstream& file, const std::string& name) const {
    const auto path = run_dir_ / name;
    end_torn_line(path);
    file.open(path, std::ios::app);
    if (!file) throw ddprun::UserError("cannot write " + path.string());
  }

  static void append(std::ofstream& file, const std::string& name, const Json& line) {
    file << line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" << std::flush;
    if (!file) throw ddprun::UserError(name + " cannot be written; is the disk full?");
  }

  // A killed run may have left half a line; the next row must not join it.
  static void end_torn_line(const std::filesystem::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::ate);
    if (!file || file.tellp() == 0) return;
    file.seekg(-1, std::ios::end);
    if (file.get() == '\n') return;
    file.clear();
    file.seekp(0, std::ios::end);
    file << '\n';
  }

  std::string file_name_, table_file_name_;
  std::filesystem::path run_dir_;
  int64_t attempt_ = 0;
  std::ofstream file_, table_file_;
};

}  // namespace

DDPRUN_LOGGER(JsonLines, "jsonl", "metrics.jsonl in the run folder: one JSON object a line")

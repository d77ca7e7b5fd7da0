// SPDX-License-Identifier: MIT
// metrics.csv: the rows of the run as one table, a column for each metric and an empty cell where a row has none. A resumed run
// goes on where its checkpoint stands: rows of later steps, which will come again, are taken out. Beside it
// confusion_<split>.csv of the last evaluation, and predictions/step_<step>.csv.
#include "table_files.h"

#include <ddprun/error.h>
#include <ddprun/logger.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

namespace {

using ddprun::csv::number;

const std::vector<std::string> kFixedColumns{"split", "epoch", "step", "samples", "time"};
using Row = std::map<std::string, std::string>;  // by column

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> result;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) result.push_back(cell);
  return result;
}

class Csv final : public ddprun::Logger {
 public:
  explicit Csv(ddprun::Options& options)
      : file_name_(options.get<std::string>("file", "metrics.csv", "name of the file in the run folder")) {}

  void start(const ddprun::RunStart& run) override {
    run_dir_ = run.run_dir;
    path_ = run_dir_ / file_name_;
    columns_ = kFixedColumns;
    read(run.resumed_step);
    rewrite();
  }

  void metrics(const ddprun::MetricRow& row) override {
    Row cells{{"split", row.split},
              {"epoch", std::to_string(row.epoch)},
              {"step", std::to_string(row.step)},
              {"samples", std::to_string(row.samples)},
              {"time", number(row.time)}};
    bool known = true;
    for (const auto& [name, value] : row.values) {
      cells[name] = number(value);
      if (std::ranges::find(columns_, name) != columns_.end()) continue;
      columns_.push_back(name);
      known = false;
    }
    rows_.push_back(std::move(cells));
    if (known) {
      file_ << line(rows_.back()) << std::flush;
    } else {
      rewrite();  // a new column: every row gets its cell
    }
    if (!file_) throw ddprun::UserError(path_.string() + " cannot be written; is the disk full?");
  }

  void confusion(const ddprun::ConfusionTable& table) override {
    ddprun::csv::write_confusion(run_dir_ / ("confusion_" + table.split + ".csv"), table);
  }

  void predictions(const ddprun::PredictionTable& table) override {
    ddprun::csv::write_predictions(run_dir_ / "predictions" / ("step_" + std::to_string(table.step) + ".csv"), table);
  }

 private:
  void read(int64_t resumed_step) {
    std::ifstream file(path_);
    std::string text;
    if (!std::getline(file, text)) return;
    columns_ = cells(text);
    while (std::getline(file, text)) {
      const auto values = cells(text);
      Row row;
      for (size_t i = 0; i < std::min(values.size(), columns_.size()); ++i) row[columns_[i]] = values[i];
      const auto step = std::strtoll(row["step"].c_str(), nullptr, 10);
      const bool comes_again = step > resumed_step || row["split"] == "test" || !row.contains("time");
      if (!comes_again) rows_.push_back(std::move(row));
    }
  }

  void rewrite() {
    const auto temporary = path_.string() + ".tmp";
    {
      std::ofstream file(temporary);
      for (const auto& name : columns_) file << (&name == &columns_.front() ? "" : ",") << name;
      file << "\n";
      for (const auto& row : rows_) file << line(row);
      if (!file.flush()) throw ddprun::UserError(temporary + " cannot be written; is the disk full?");
    }
    std::filesystem::rename(temporary, path_);
    file_.close();
    file_.open(path_, std::ios::app);
  }

  std::string line(const Row& row) const {
    std::string text;
    for (const auto& column : columns_) {
      const auto cell = row.find(column);
      text += (text.empty() && &column == &columns_.front() ? "" : ",") + (cell == row.end() ? "" : cell->second);
    }
    return text + "\n";
  }

  std::string file_name_;
  std::filesystem::path run_dir_, path_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
  std::ofstream file_;
};

}  // namespace

DDPRUN_LOGGER(Csv, "csv", "metrics.csv in the run folder: one table of all rows")

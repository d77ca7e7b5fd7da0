// SPDX-License-Identifier: MIT
// metrics.csv: the rows of the run as one table with a column per metric; cells without a value are empty. A resumed
// run continues from its checkpoint: rows of later steps, which will come again, are removed. The logger also writes
// confusion_<split>.csv of the last evaluation, and predictions/step_<step>.csv. Rows of the split "system" are left
// out.
#include "csv_cell.h"
#include "run_names.h"
#include "table_files.h"

#include <ddprun/file_error.h>
#include <ddprun/files.h>
#include <ddprun/logger.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

namespace {

using ddprun::csv_cell;
using ddprun::csv_cells;
using ddprun::csv::number;
using Columns = std::vector<std::string>;

const Columns kFixedColumns{"split", "epoch", "step", "samples", "time"};
constexpr auto kEveryStep = std::numeric_limits<int64_t>::max();

std::string joined(const std::vector<std::string>& cells_of_line) {
  std::string text;
  for (size_t i = 0; i < cells_of_line.size(); ++i) text += (i == 0 ? "" : ",") + csv_cell(cells_of_line[i]);
  return text + "\n";
}

// True if a row of an earlier attempt stays: it is whole, and will not come again.
bool stays(const std::vector<std::string>& row, const Columns& columns, int64_t last_step) {
  if (row.size() < kFixedColumns.size()) return false;
  const auto at = [&](const char* name) {
    const auto index = static_cast<size_t>(std::ranges::find(columns, name) - columns.begin());
    return index < row.size() ? row[index] : std::string();
  };
  if (last_step == kEveryStep) return true;
  return at("split") != "test" && std::strtoll(at("step").c_str(), nullptr, 10) <= last_step;
}

class Csv final : public ddprun::Logger {
 public:
  explicit Csv(ddprun::Options& options)
      : file_name_(ddprun::name_in_run(options, "file", "metrics.csv", "name of the file in the run folder")) {}

  void start(const ddprun::RunStart& run) override {
    run_dir_ = run.run_dir;
    path_ = run_dir_ / file_name_;
    rewrite({}, run.resumed_step);
  }

  void metrics(const ddprun::MetricRow& row) override {
    if (row.split == "system") return;
    std::map<std::string, std::string> values{{"split", row.split},
                                              {"epoch", std::to_string(row.epoch)},
                                              {"step", std::to_string(row.step)},
                                              {"samples", std::to_string(row.samples)},
                                              {"time", number(row.time)}};
    Columns fresh;
    for (const auto& [name, value] : row.values) {
      values[name] = number(value);
      if (std::ranges::find(columns_, name) == columns_.end()) fresh.push_back(name);
    }
    if (!fresh.empty()) rewrite(fresh, kEveryStep);
    std::vector<std::string> line;
    for (const auto& column : columns_) line.push_back(values.contains(column) ? values.at(column) : "");
    with_file([&] { file_.append(joined(line)); });
  }

  void confusion(const ddprun::ConfusionTable& table) override {
    ddprun::csv::write_confusion(run_dir_ / ("confusion_" + table.split + ".csv"), table);
  }

  void predictions(const ddprun::PredictionTable& table) override {
    ddprun::csv::write_predictions(run_dir_ / "predictions" / ("step_" + std::to_string(table.step) + ".csv"), table);
  }

  void flush() override {
    with_file([&] { file_.sync(); });
  }

 private:
  // Does something with the file. A new one, in place of one that was removed, gets its columns first.
  template <class Call>
  void with_file(Call call) try {
    call();
  } catch (const ddprun::FileError& error) {
    if (error.error() == ESTALE) rewrite({}, kEveryStep);
    throw;
  }

  // Rewrites the file with additional columns after those that it has, and without the rows after `last_step`, which
  // come again. Throws FileError if it cannot be read, or written; it is then as it was.
  void rewrite(const Columns& more, int64_t last_step) {
    std::istringstream former(ddprun::read_file(path_).value_or(""));
    std::string text;
    const auto columns = std::getline(former, text) ? csv_cells(text) : kFixedColumns;
    auto all = columns;
    all.insert(all.end(), more.begin(), more.end());
    auto table = joined(all);
    while (std::getline(former, text)) {
      auto row = csv_cells(text);
      if (former.eof() || !stays(row, columns, last_step)) continue;  // at the end: a row that was left unfinished
      row.resize(all.size());
      table += joined(row);
    }
    ddprun::make_folder(path_.parent_path());
    ddprun::replace_file(path_, table);
    columns_ = std::move(all);
    file_.open(path_);
  }

  std::string file_name_;
  std::filesystem::path run_dir_, path_;
  Columns columns_;
  ddprun::RecordFile file_;
};

}  // namespace

DDPRUN_LOGGER(Csv, "csv", "metrics.csv in the run folder: one table of all rows")

// SPDX-License-Identifier: MIT
// metrics.jsonl: one JSON object a line, the record that scripts follow. Resumed runs append; rows of an attempt that was cut
// off come again with a higher "attempt", and the last one of a step counts.
#include <ddprun/error.h>
#include <ddprun/logger.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace {

class JsonLines final : public ddprun::Logger {
 public:
  explicit JsonLines(ddprun::Options& options)
      : file_name_(options.get<std::string>("file", "metrics.jsonl", "name of the file in the run folder")) {}

  void start(const ddprun::RunStart& run) override {
    attempt_ = run.attempt;
    const auto path = run.run_dir / file_name_;
    end_torn_line(path);
    file_.open(path, std::ios::app);
    if (!file_) throw ddprun::UserError("cannot write " + path.string());
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
    file_ << line.dump() + "\n" << std::flush;
    if (!file_) throw ddprun::UserError(file_name_ + " cannot be written; is the disk full?");
  }

 private:
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

  std::string file_name_;
  int64_t attempt_ = 0;
  std::ofstream file_;
};

}  // namespace

DDPRUN_LOGGER(JsonLines, "jsonl", "metrics.jsonl in the run folder: one JSON object a line")

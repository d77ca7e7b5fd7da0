// SPDX-License-Identifier: MIT
// Logs a run to an MLflow server. The hooks only append to a spool in the run's folder, which a thread sends: the
// server may be slow, down or refuse us, and nothing waits for it or is lost. A resumed attempt continues the same
// MLflow run.
#include "batch.h"
#include "history.h"
#include "names.h"
#include "params.h"
#include "sender.h"
#include "settings.h"
#include "spool.h"
#include "tables.h"
#include "tags.h"
#include "warning.h"

#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/logger.h>

#include <picture.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <random>

namespace {

namespace fs = std::filesystem;
using namespace ddprun::mlflow;

constexpr auto kPatience = std::chrono::seconds(4);  // less than the runner gives a logger at the end
constexpr size_t kMostTables = 50;                   // in the tag that lists them

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string new_word() {
  std::random_device random;
  char text[33];
  std::snprintf(text, sizeof text, "%08x%08x%08x%08x", random(), random(), random(), random());
  return text;
}

const char* status_of(const ddprun::RunEnd& end) {
  if (end.status == "completed" || end.status == "stopped_early") return "FINISHED";
  return end.status == "preempted" ? "KILLED" : "FAILED";  // a run that could not say how it ended has failed
}

Json file_line(const std::string& from, const std::string& to) { return {{"file", {{"from", from}, {"to", to}}}}; }

class MlflowLogger final : public ddprun::Logger {
 public:
  explicit MlflowLogger(ddprun::Options& options) : settings_(read_settings(options)) {}

  void start(const ddprun::RunStart& run) override {
    open(run.run_dir, run.resumed_step);
    spool_->append({start_line(run)});
    spool_->append(artifact_lines(/*folders_too=*/false));
    sender_ = std::make_unique<Sender>(settings_, run_dir_);
  }

  void metrics(const ddprun::MetricRow& row) override {
    if (history_.rows.erase({row.split, row.step}) > 0) return;  // MLflow has it from the attempt that was cut off
    Json metrics = Json::object();
    for (const auto& [name, value] : row.values) metrics[legal(row.split + "/" + name)] = metric_value(value);
    if (row.split == "train") metrics["train/epoch"] = row.epoch;
    const auto time = static_cast<int64_t>(row.time * 1000);
    spool_->append({{{"row", {{"split", row.split}, {"step", row.step}, {"time", time}, {"metrics", metrics}}}}});
  }

  void confusion(const ddprun::ConfusionTable& table) override {
    add_table(table.split + "_confusion_step_" + std::to_string(table.step), table_of(table));
  }

  void predictions(const ddprun::PredictionTable& table) override {
    for (const auto& row : table.rows) {
      add_image(image_path(table, row), row.image);
      add_image(output_path(table, row), row.output);
    }
    add_table(table.split + "_predictions_step_" + std::to_string(table.step), table_of(table));
  }

  void flush() override { spool_->sync(); }

  void finish(const ddprun::RunEnd& end) override {
    append_end(end, now_ms());
    const auto left = sender_->finish(kPatience);
    if (!left.empty())
      warn("not everything has reached " + settings_.uri + ": " + left + "; `ddprun upload " + run_dir_.string() +
           "` sends the rest");
  }

  void upload(const fs::path& run_dir, const ddprun::RunEnd& end) override {
    if (!fs::exists(run_dir / "mlflow/spool.jsonl")) return;  // the run failed before this logger began
    ddprun::FileLock lock(run_dir / "mlflow/lock");
    if (lock.try_lock() == ddprun::LockState::kTaken)
      throw ddprun::UserError(run_dir.string() + ": another process is sending it to MLflow");
    open(run_dir, std::numeric_limits<int64_t>::max());
    if (history_.ended != status_of(end)) append_end(end, history_.last_time_ms > 0 ? history_.last_time_ms : now_ms());
    send_rest(settings_, run_dir_);
  }

 private:
  void open(const fs::path& run_dir, int64_t from_step) {
    run_dir_ = run_dir;
    ddprun::make_folder(run_dir_ / "mlflow");
    const auto file = run_dir_ / "mlflow/spool.jsonl";
    spool_ = std::make_unique<SpoolWriter>(file);
    history_ = read_history(file, from_step);
    if (history_.spool.empty()) spool_->append({{{"spool", new_word()}}});
  }

  Json start_line(const ddprun::RunStart& run) {
    const auto tags = start_tags(run);
    Json start{{"time", now_ms()},
               {"experiment", settings_.experiment.empty() ? run.name : settings_.experiment},
               {"run_name", settings_.run_name.empty() ? run.run_dir.filename().string() : settings_.run_name},
               {"params", Json::object()},
               {"tags", tags}};
    for (const auto& [name, value] : params_of(run.config_yaml)) {
      const auto known = history_.params.find(name);
      if (known == history_.params.end()) start["params"][name] = value;
      // A param is written only once; what a resumed attempt changes becomes a tag.
      if (known != history_.params.end() && known->second != value)
        start["tags"]["ddprun.attempt_" + std::to_string(run.attempt) + "." + name] = value;
    }
    return {{"start", start}};
  }

  void append_end(const ddprun::RunEnd& end, int64_t time_ms) {
    Json best = Json::object();
    for (const auto& [name, value] : end.best) best[legal("best/" + name)] = metric_value(value);
    std::vector<Json> lines{{{"tags", end_tags(end)}}};
    if (!best.empty() && history_.rows.erase({"best", end.steps}) == 0)
      lines.push_back({{"row", {{"split", "best"}, {"step", end.steps}, {"time", time_ms}, {"metrics", best}}}});
    lines.push_back({{"end", {{"status", status_of(end)}, {"time", time_ms}}}});
    for (auto& line : artifact_lines(/*folders_too=*/true)) lines.push_back(std::move(line));
    if (settings_.checkpoint != "none") {
      const auto weights = "checkpoints/" + settings_.checkpoint + "/model.safetensors";
      lines.push_back(file_line(weights, weights));
    }
    spool_->append(lines);
  }

  // Returns those that exist.
  std::vector<Json> artifact_lines(bool folders_too) const {
    std::vector<Json> lines;
    std::error_code error;
    for (const auto& name : settings_.artifacts) {
      const auto path = run_dir_ / name;
      if (fs::is_regular_file(path, error)) lines.push_back(file_line(name, name));
      if (!folders_too || !fs::is_directory(path, error)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
        const auto below = entry.path().lexically_relative(run_dir_).string();
        if (entry.is_regular_file(error)) lines.push_back(file_line(below, below));
      }
    }
    return lines;
  }

  // MLflow's pages show the tables that this tag lists.
  void add_table(const std::string& name, const Json& table) {
    const auto path = "tables/" + name + ".json";
    write_own_file(path, text_of(table));
    auto& tables = history_.tables;
    if (std::ranges::find(tables, path) == tables.end()) tables.push_back(path);
    if (tables.size() > kMostTables) tables.erase(tables.begin(), tables.end() - kMostTables);
    auto list = Json::array();
    for (const auto& one : tables) list.push_back({{"path", one}, {"type", "table"}});
    spool_->append({file_line("mlflow/files/" + path, path), {{"tags", {{"mlflow.loggedArtifacts", text_of(list)}}}}});
  }

  // Adds an image once per run; does nothing if there is none.
  void add_image(const std::string& path, const ddprun::ShownImage& image) {
    if (image.bytes.empty() || history_.images.contains(path)) return;
    write_own_file(path, ddprun::encode_png(image));
    spool_->append({file_line("mlflow/files/" + path, path)});
    history_.images.insert(path);
  }

  void write_own_file(const std::string& path, const std::string& content) const {
    const auto file = run_dir_ / "mlflow/files" / path;
    ddprun::make_folder(file.parent_path());
    ddprun::replace_file(file, content);
  }

  const std::string& legal(const std::string& name) {
    const bool known = names_.knows(name);
    const auto& legal = names_.legal(name);
    if (!known && legal != name) warn("MLflow takes no metric \"" + name + "\": it is logged as \"" + legal + "\"");
    return legal;
  }

  const Settings settings_;
  fs::path run_dir_;
  History history_;
  NameTable names_;
  std::unique_ptr<SpoolWriter> spool_;
  std::unique_ptr<Sender> sender_;
};

}  // namespace

DDPRUN_LOGGER(MlflowLogger, "mlflow", "a run on an MLflow server: metrics, params, tables, files")

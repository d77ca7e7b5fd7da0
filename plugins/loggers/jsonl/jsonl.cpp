// SPDX-License-Identifier: MIT
// The machine-readable record, one JSON object per line. metrics.jsonl has the rows; tables.jsonl the confusion
// matrices, predictions and histograms, each with its "kind"; events.jsonl the events; run.json the run at its start;
// images/ the samples of the predictions, and images that the model outputs. Resumed runs append; rows of an attempt
// that was cut off come again with a higher "attempt", and the last one of a step counts.
#include "picture.h"
#include "run_names.h"
#include "table_lines.h"

#include <ddprun/files.h>
#include <ddprun/logger.h>

#include <cmath>

namespace {

using namespace ddprun::jsonl;

class JsonLines final : public ddprun::Logger {
 public:
  explicit JsonLines(ddprun::Options& options)
      : file_name_(ddprun::name_in_run(options, "file", "metrics.jsonl", "name of the file in the run folder")),
        table_file_name_(ddprun::name_in_run(options, "tables", "tables.jsonl", "the same for tables")),
        images_(options.get<bool>("images", true, "the samples of the predictions as PNG files in images/")) {
    if (file_name_ == table_file_name_) options.reject("tables", "is the name of `file`, too; choose another");
  }

  void start(const ddprun::RunStart& run) override {
    attempt_ = run.attempt;
    run_dir_ = run.run_dir;
    metrics_.open(run_dir_ / file_name_);
    events_.open(run_dir_ / "events.jsonl");
    ddprun::replace_file(run_dir_ / "run.json",
                         object_of(run).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  void metrics(const ddprun::MetricRow& row) override {
    Json line{{"time", row.time},   {"attempt", attempt_}, {"split", row.split},
              {"epoch", row.epoch}, {"step", row.step},    {"samples", row.samples}};
    auto nonfinite = Json::array();
    for (const auto& [name, value] : row.values) {
      line[name] = number(value);
      if (!std::isfinite(value)) nonfinite.push_back(name);
    }
    if (!nonfinite.empty()) line["nonfinite"] = nonfinite;
    append(metrics_, line);
  }

  void confusion(const ddprun::ConfusionTable& table) override {
    append("confusion", table.split, table, {{"classes", table.class_names}, {"counts", counts_of(table)}});
  }

  void predictions(const ddprun::PredictionTable& table) override {
    if (images_) {
      for (const auto& row : table.rows) {
        write_image(image_path(table, row), row.image);
        write_image(output_path(table, row), row.output);
      }
    }
    append("predictions", table.split, table, {{"classes", table.class_names}, {"rows", rows_of(table, images_)}});
  }

  void histograms(const ddprun::HistogramTable& table) override {
    append("histograms", "train", table, {{"histograms", histograms_of(table)}});
  }

  void event(const ddprun::RunEvent& event) override {
    append(events_, {{"time", event.time},
                     {"attempt", attempt_},
                     {"epoch", event.epoch},
                     {"step", event.step},
                     {"kind", event.kind},
                     {"text", event.text}});
  }

  void flush() override {
    metrics_.sync();
    tables_.sync();
    events_.sync();
  }

 private:
  static void append(ddprun::RecordFile& file, const Json& line) {
    file.append_line(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  template <class Table>
  void append(const char* kind, const std::string& split, const Table& table, const Json& content) {
    Json line{{"kind", kind}, {"attempt", attempt_}, {"split", split}, {"epoch", table.epoch}, {"step", table.step}};
    line.update(content);
    if (!tables_.is_open()) tables_.open(run_dir_ / table_file_name_);
    append(tables_, line);
  }

  // Writes an image once per run: a sample's image does not change, nor does the model's output at a step. Skips an
  // empty one.
  void write_image(const std::string& name, const ddprun::ShownImage& image) const {
    const auto path = run_dir_ / name;
    if (image.bytes.empty() || std::filesystem::exists(path)) return;
    ddprun::make_folder(path.parent_path());
    ddprun::replace_file(path, encode_png(image));
  }

  std::string file_name_, table_file_name_;
  bool images_;
  std::filesystem::path run_dir_;
  int64_t attempt_ = 0;
  ddprun::RecordFile metrics_, tables_, events_;
};

}  // namespace

DDPRUN_LOGGER(JsonLines, "jsonl", "metrics.jsonl in the run folder: one JSON object per line")

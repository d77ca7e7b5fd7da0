// SPDX-License-Identifier: MIT
// Event files in <run>/tensorboard, for `tensorboard --logdir outputs`. Each attempt has a file of its own: nothing is
// appended to one that a killed attempt left half written, and TensorBoard lets the rows of a later file replace those
// that come again.
#include "event_file.h"
#include "hparams.h"
#include "layout.h"
#include "pictures.h"
#include "run_names.h"
#include "summary.h"
#include "tables.h"

#include <ddprun/files.h>
#include <ddprun/logger.h>

#include <chrono>
#include <memory>

namespace {

namespace tb = ddprun::tensorboard;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

class TensorBoard final : public ddprun::Logger {
 public:
  explicit TensorBoard(ddprun::Options& options)
      : folder_(ddprun::name_in_run(options, "folder", "tensorboard", "name of the folder in the run's folder")),
        images_(options.get<bool>("images", true, "pictures of predictions and confusion matrices")),
        hparams_(options.get<bool>("hparams", true, "the experiment's values for the page that compares runs")) {}

  void start(const ddprun::RunStart& run) override {
    force_earlier_files(run.run_dir / folder_);
    file_ = std::make_unique<tb::EventFile>(run.run_dir / folder_, now());
    tb::Message summary;
    if (run.resumed_step == 0) {
      tb::add_text(summary, "config", tb::verbatim(run.config_yaml));
      tb::add_layout(summary, tb::layout());
    }
    if (hparams_) tb::add_hparams(summary, tb::kSessionStart, tb::session_start(run, now()));
    file_->write(now(), 0, summary);
  }

  void metrics(const ddprun::MetricRow& row) override {
    tb::Message summary;
    for (const auto& [name, value] : row.values) tb::add_scalar(summary, row.split + "/" + name, value);
    if (row.split == "train") tb::add_scalar(summary, "train/epoch", static_cast<double>(row.epoch));
    file_->write(row.time, row.step, summary);
  }

  void confusion(const ddprun::ConfusionTable& table) override {
    tb::Message summary;
    tb::add_text(summary, table.split + "/confusion_table", tb::confusion_table(table));
    if (images_) tb::add_image(summary, table.split + "/confusion", tb::confusion_picture(table));
    file_->write(now(), table.step, summary);
  }

  void predictions(const ddprun::PredictionTable& table) override {
    tb::Message summary;
    tb::add_text(summary, table.split + "/prediction_table", tb::prediction_table(table));  // a tag has one kind only
    const auto grid = images_ ? tb::prediction_grid(table) : std::nullopt;
    if (grid) tb::add_image(summary, table.split + "/predictions", *grid);
    file_->write(now(), table.step, summary);
  }

  void histograms(const ddprun::HistogramTable& table) override {
    tb::Message summary;
    for (const auto& histogram : table.histograms) tb::add_histogram(summary, histogram.name, histogram);
    file_->write(now(), table.step, summary);
  }

  void event(const ddprun::RunEvent& event) override {
    tb::Message summary;
    tb::add_text(summary, "events", event.kind + ": " + event.text);
    file_->write(event.time, event.step, summary);
  }

  void flush() override { file_->sync(); }

  void finish(const ddprun::RunEnd& end) override {
    tb::Message summary;
    tb::add_text(summary, "end", end.status + ": " + end.stop_reason);
    if (hparams_) tb::add_hparams(summary, tb::kSessionEnd, tb::session_end(end, now()));
    file_->write(now(), end.steps, summary);
  }

 private:
  // What a killed attempt wrote last may not be on the disk yet, and this attempt's checkpoints stand for it.
  static void force_earlier_files(const std::filesystem::path& folder) {
    std::error_code none_yet;
    for (const auto& file : std::filesystem::directory_iterator(folder, none_yet)) {
      if (file.is_regular_file()) ddprun::sync_path(file.path());
    }
  }

  std::string folder_;
  bool images_, hparams_;
  std::unique_ptr<tb::EventFile> file_;
};

}  // namespace

DDPRUN_LOGGER(TensorBoard, "tensorboard", "event files for TensorBoard: curves, pictures, tables, hyperparameters")

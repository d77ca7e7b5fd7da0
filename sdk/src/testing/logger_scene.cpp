// SPDX-License-Identifier: MIT
#include "logger_scene.h"

#include "problem.h"

#include <cstdlib>
#include <exception>
#include <thread>

namespace ddprun::check {
namespace {

namespace fs = std::filesystem;

void overwrite_text(std::string& text) {
  for (auto& letter : text) letter = kOverwritten[0];
}

template <class Number>
void overwrite_numbers(std::vector<Number>& numbers) {
  for (auto& number : numbers) number = -1;
}

void overwrite_row(MetricRow& row) {
  overwrite_text(row.split);
  for (auto& [name, value] : row.values) {
    overwrite_text(name);
    value = -1;
  }
}

MetricRow row_of(const std::string& split, const std::string& mark) {
  return {.time = 1e9,
          .split = split,
          .epoch = 1,
          .step = 10,
          .samples = 640,
          .values = {{mark + "loss", 0.25}, {mark + "accuracy", 0.5}}};
}

PredictionTable predictions_of(const std::string& mark) {
  const ShownImage image{.channels = 1, .height = 2, .width = 3, .bytes = {0, 50, 100, 150, 200, 255}};
  return {.split = "val",
          .epoch = 1,
          .step = 10,
          .class_names = {mark + "cat", mark + "dog"},
          .rows = {{.id = 3, .image = image, .guess = 1, .truth = 0, .scores = {0.25, 0.75}},
                   {.id = 7, .guess = 0, .truth = 0, .scores = {1, 0}}}};
}

RunStart start_of(const std::string& mark, const fs::path& run_dir) {
  return {.time = 1e9,
          .name = mark + "run",
          .run_dir = run_dir,
          .config_yaml = "name: " + mark + "run\nseed: 1\n",
          .global_batch = 64,
          .steps_per_epoch = 10,
          .max_epochs = 2,
          .max_steps = 20,
          .parameters = 42,
          .model = mark + "model",
          .dataset = mark + "dataset",
          .optimizer = mark + "optimizer",
          .device = "cpu",
          .ranks = {{.host = mark + "host", .device = "cpu"}},
          .train_samples = 640,
          .val_samples = 64,
          .test_samples = 64,
          .sample_shape = {1, 2, 3},
          .classes = 2,
          .layers = {{.name = mark + "layer", .kind = "Linear", .shape = "64 x 10", .parameters = 42}}};
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "ddprun_logger_XXXXXX").string();
  if (!mkdtemp(name.data())) complain("no temporary folder can be made in ", fs::temp_directory_path().string());
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

RunFolder::RunFolder(const LoggerTest& test) : path_(test.run_dir) {
  if (path_.empty()) path_ = temporary_.emplace().path();
}

ToldRun::ToldRun(const std::string& mark, const fs::path& run_dir)
    : start(start_of(mark, run_dir)),
      progress{.epoch = 1, .step = 5, .step_in_epoch = 5, .phase = "train", .samples_per_second = 1000},
      train(row_of("train", mark)),
      system(row_of("system", mark)),
      val(row_of("val", mark)),
      ranks{.time = 1e9, .epoch = 1, .step = 10, .columns = {mark + "seconds"}, .rows = {{0.5}, {0.75}}},
      event{.time = 1e9, .epoch = 1, .step = 10, .kind = "checkpoint", .text = mark + "what happened"},
      confusion{
          .split = "val", .epoch = 1, .step = 10, .class_names = {mark + "cat", mark + "dog"}, .counts = {5, 1, 2, 4}},
      predictions(predictions_of(mark)),
      histograms{.epoch = 1,
                 .step = 10,
                 .histograms = {{.name = mark + "weights",
                                 .count = 3,
                                 .min = -1,
                                 .max = 1,
                                 .stddev = 0.5,
                                 .edges = {-1, 0, 1},
                                 .counts = {1, 2}}}},
      end{.status = "completed",
          .stop_reason = mark + "the last epoch is done",
          .steps = 20,
          .epochs = 2,
          .samples = 1280,
          .metrics = {{"val/" + mark, 0.5}},
          .best = {{"val/" + mark, 0.5}},
          .checkpoint = (run_dir / "checkpoints" / "step_00000020").string()} {}

void ToldRun::overwrite() {
  for (auto* text : {&start.name, &start.config_yaml, &start.model, &start.dataset, &start.optimizer, &start.device,
                     &progress.phase, &event.kind, &event.text, &confusion.split, &predictions.split, &end.status,
                     &end.stop_reason, &end.checkpoint}) {
    overwrite_text(*text);
  }
  for (auto* row : {&train, &system, &val}) overwrite_row(*row);
  for (auto* names : {&ranks.columns, &confusion.class_names, &predictions.class_names}) {
    for (auto& name : *names) overwrite_text(name);
  }
  for (auto& layer : start.layers) overwrite_text(layer.name);
  for (auto& histogram : histograms.histograms) overwrite_text(histogram.name);
  for (auto& rank : ranks.rows) overwrite_numbers(rank);
  for (auto& row : predictions.rows) overwrite_numbers(row.scores);
  for (auto* values : {&end.metrics, &end.best}) {
    for (auto& [name, value] : *values) overwrite_text(name);
  }
}

void in_logger_thread(const std::function<void()>& body) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

std::shared_ptr<Logger> made(const LoggerTest& test) {
  return in_hook("the constructor", [&] { return test.make(); });
}

void tell(Logger& logger, const ToldRun& run, bool finish) {
  in_hook("start()", [&] { logger.start(run.start); });
  in_hook("progress()", [&] { logger.progress(run.progress); });
  in_hook("metrics()", [&] { logger.metrics(run.train); });
  in_hook("metrics()", [&] { logger.metrics(run.system); });
  in_hook("ranks()", [&] { logger.ranks(run.ranks); });
  in_hook("metrics()", [&] { logger.metrics(run.val); });
  in_hook("confusion()", [&] { logger.confusion(run.confusion); });
  in_hook("predictions()", [&] { logger.predictions(run.predictions); });
  in_hook("histograms()", [&] { logger.histograms(run.histograms); });
  in_hook("event()", [&] { logger.event(run.event); });
  in_hook("flush()", [&] { logger.flush(); });
  if (finish) in_hook("finish()", [&] { logger.finish(run.end); });
}

}  // namespace ddprun::check

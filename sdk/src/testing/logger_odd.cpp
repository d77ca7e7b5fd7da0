// SPDX-License-Identifier: MIT
// Checks that a logger takes whatever numbers and names a run may have.
#include "logger_scene.h"
#include "problem.h"

#include <ddprun/testing/logger.h>

#include <limits>

namespace ddprun::check {
namespace {

struct OddName {
  const char* what;
  std::string name;
};

// Names that classes, metrics and runs may have.
std::vector<OddName> odd_names() {
  return {{"an empty name", ""},
          {"a name with a space, a comma and quotes", "cup, \"mug\""},
          {"a name of two lines", "up\ndown\r\n"},
          {"a name in another script", "perte/\u635f\u5931-\u00e9"},
          {"a name that is not UTF-8", "\xff\xfe\xc3"},
          {"a name with slashes and dots", "../a//b/.."},
          {"a name of 2000 letters", std::string(2000, 'n')}};
}

std::vector<double> odd_numbers() {
  using Limits = std::numeric_limits<double>;
  return {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), Limits::max(), Limits::denorm_min(), -0.0};
}

MetricRow odd_row(const std::string& name) {
  MetricRow row{.split = "train", .epoch = 1, .step = 1, .samples = std::numeric_limits<int64_t>::max()};
  for (const double number : odd_numbers()) row.values.emplace_back(name + std::to_string(row.values.size()), number);
  row.values.emplace_back(name, 1);
  return row;
}

// A run whose every name is this one and whose numbers are odd. It outlives the logger that it is reported to.
struct OddRun {
  OddRun(const std::string& name, const std::filesystem::path& run_dir)
      : start{.name = name, .run_dir = run_dir, .config_yaml = name, .model = name, .layers = {{.name = name}}},
        rows{odd_row(name), {.split = "val", .epoch = 1, .step = 1}},
        confusions{{.split = "val", .epoch = 1, .step = 1, .class_names = {name}, .counts = {3}}, {.split = "val"}},
        predictions{
            {.split = "val", .step = 1, .class_names = {name}, .rows = {{.guess = 0, .truth = 0, .scores = {kNan}}}},
            {.split = "val", .step = 2, .rows = {{.id = 1, .scores = odd_numbers(), .true_values = odd_numbers()}}},
            {.split = "test"}},
        histograms{{.epoch = 1, .step = 1, .histograms = {{.name = name, .count = 5, .nonfinite = 5}}}, {}},
        ranks{{.epoch = 1, .step = 1, .columns = {name}, .rows = {{kNan}, {0}}}, {}},
        events{{.epoch = 1, .step = 1, .kind = "nonfinite", .text = name}, {}},
        end{.status = "failed", .stop_reason = name, .metrics = {{name, kNan}}} {}

  void tell(Logger& logger) const {
    in_hook("start()", [&] { logger.start(start); });
    in_hook("progress()", [&] { logger.progress(progress); });
    for (const auto& row : rows) in_hook("metrics()", [&] { logger.metrics(row); });
    for (const auto& table : confusions) in_hook("confusion()", [&] { logger.confusion(table); });
    for (const auto& table : predictions) in_hook("predictions()", [&] { logger.predictions(table); });
    for (const auto& table : histograms) in_hook("histograms()", [&] { logger.histograms(table); });
    for (const auto& table : ranks) in_hook("ranks()", [&] { logger.ranks(table); });
    for (const auto& event : events) in_hook("event()", [&] { logger.event(event); });
    in_hook("flush()", [&] { logger.flush(); });
    in_hook("finish()", [&] { logger.finish(end); });
  }

  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  RunStart start;
  RunProgress progress;
  std::vector<MetricRow> rows;
  std::vector<ConfusionTable> confusions;
  std::vector<PredictionTable> predictions;
  std::vector<HistogramTable> histograms;
  std::vector<RankTable> ranks;
  std::vector<RunEvent> events;
  RunEnd end;
};

void check_odd(const LoggerTest& test, const OddName& odd) {
  const RunFolder folder(test);
  const OddRun run(odd.name, folder.path());
  const auto logger = made(test);
  in_logger_thread([&] {
    try {
      run.tell(*logger);
    } catch (const Problem& problem) {
      complain("told of ", odd.what, ", of NaN and of empty tables: ", problem.what());
    }
  });
}

}  // namespace

std::string takes_odd_values(const LoggerTest& test) {
  return problem_of([&] {
    for (const auto& odd : odd_names()) check_odd(test, odd);
  });
}

}  // namespace ddprun::check

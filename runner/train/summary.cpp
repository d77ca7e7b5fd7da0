// SPDX-License-Identifier: MIT
#include "train/summary.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace ddprun {
namespace {

using nlohmann::ordered_json;

ordered_json object(const std::vector<std::pair<std::string, double>>& values) {
  auto result = ordered_json::object();
  for (const auto& [name, value] : values)
    result[name] = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  return result;
}

}  // namespace

void write_summary(const std::filesystem::path& run_dir, const Summary& summary) {
  const auto& end = summary.end;
  ordered_json json{{"status", end.status},
                    {"stop_reason", end.stop_reason},
                    {"steps", end.steps},
                    {"epochs", end.epochs},
                    {"samples", end.samples},
                    {"world_size", end.world_size},
                    {"nodes", end.nodes},
                    {"attempt", summary.attempt},
                    {"total_seconds", end.total_seconds},
                    {"train_seconds", end.train_seconds},
                    {"first_step_seconds", summary.first_step_seconds},
                    {"samples_per_second", end.samples_per_second},
                    {"step_seconds", summary.step_seconds},
                    {"compute_seconds", summary.compute_seconds},
                    {"data_seconds", summary.data_seconds},
                    {"peak_rss_bytes", summary.peak_rss_bytes},
                    {"metrics", object(end.metrics)},
                    {"best", object(end.best)},
                    {"checkpoint", end.checkpoint}};
  if (end.test_total >= 0) {
    json["test_correct"] = end.test_correct;
    json["test_total"] = end.test_total;
  }
  const auto temporary = run_dir / "summary.json.tmp";
  std::ofstream(temporary) << json.dump(2) << "\n";
  std::filesystem::rename(temporary, run_dir / "summary.json");
}

}  // namespace ddprun

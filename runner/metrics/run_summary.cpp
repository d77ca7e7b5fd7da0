// SPDX-License-Identifier: MIT
#include "metrics/run_summary.h"

#include "base/files_below.h"
#include "base/program.h"

#include <ddprun/file_error.h>
#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <cmath>

namespace ddprun {
namespace {

using nlohmann::ordered_json;

ordered_json object(const std::vector<std::pair<std::string, double>>& values) {
  auto result = ordered_json::object();
  for (const auto& [name, value] : values)
    result[name] = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  return result;
}

// Returns {"step": [157, 314], "val/accuracy": [0.93, 0.95]}.
ordered_json object(const MetricHistory& history) {
  auto steps = ordered_json::array(), values = ordered_json::array();
  for (const auto& [step, value] : history.values) {
    steps.push_back(step);
    values.push_back(std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr));
  }
  ordered_json result{{"step", std::move(steps)}};
  if (!history.metric.empty()) result[history.metric] = std::move(values);
  return result;
}

template <class Number>
Number number_of(const ordered_json& json, const char* key, Number fallback) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? at->get<Number>() : fallback;
}

std::string text_of(const ordered_json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

std::vector<std::pair<std::string, double>> values_of(const ordered_json& json, const char* key) {
  std::vector<std::pair<std::string, double>> values;
  const auto at = json.find(key);
  if (at == json.end() || !at->is_object()) return values;
  for (const auto& [name, value] : at->items())
    values.emplace_back(name, value.is_number() ? value.get<double>() : std::nan(""));
  return values;
}

// Returns null if there is no file, or it is not one of ours.
ordered_json read_summary(const std::filesystem::path& run_dir) {
  return ordered_json::parse(read_below(run_dir, "summary.json"), nullptr, /*allow_exceptions=*/false);
}

}  // namespace

void write_summary(const std::filesystem::path& run_dir, const RunSummary& summary) {
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
                    {"step_seconds", summary.phases.total()},
                    {"compute_seconds", summary.phases.computing()},
                    {"data_seconds", summary.phases[StepPhase::kData]},
                    {"forward_seconds", summary.phases[StepPhase::kForward]},
                    {"backward_seconds", summary.phases[StepPhase::kBackward]},
                    {"wait_seconds", summary.phases[StepPhase::kWait]},
                    {"optimizer_seconds", summary.phases[StepPhase::kOptimizer]},
                    {"graph_seconds", summary.phases[StepPhase::kGraph]},
                    {"logging_seconds", summary.phases[StepPhase::kLogging]},
                    {"peak_rss_bytes", summary.peak_rss_bytes},
                    {"memory_format", summary.memory_format ? word_of(*summary.memory_format) : ""},
                    {"cuda_graph", summary.cuda_graph},
                    {"replayed_steps", summary.replayed_steps},
                    {"metrics", object(end.metrics)},
                    {"best", object(end.best)},
                    {"best_step", end.best_step},
                    {"history", object(summary.history)},
                    {"history_left_out", summary.history.left_out},
                    {"weights", summary.averaged ? "ema" : "model"},
                    {"checkpoint", end.checkpoint},
                    {"best_checkpoint", summary.best_checkpoint}};
  if (end.tokens_per_second > 0) json["tokens_per_second"] = end.tokens_per_second;
  if (end.model_flops_per_second > 0) json["model_flops_per_second"] = end.model_flops_per_second;
  if (end.mfu > 0) json["mfu"] = end.mfu;
  if (end.test_total >= 0) {
    json["test_correct"] = end.test_correct;
    json["test_total"] = end.test_total;
  }
  if (!summary.test_error.empty()) json["test_error"] = summary.test_error;
  if (gpus_are_pretended()) json["pretended_gpus"] = true;
  for (const auto& trouble : summary.loggers)
    json["loggers"][trouble.logger] = {{"lost", trouble.lost}, {"problem", trouble.problem}};
  if (!summary.ranks.empty()) {
    json["backend"] = summary.backend;
    json["ranks"] = ordered_json::array();
    for (size_t rank = 0; rank < summary.ranks.size(); ++rank) {
      const auto& [host, device] = summary.ranks[rank];
      json["ranks"].push_back({{"host", host}, {"device", device}});
      if (rank < summary.measured.size()) json["ranks"].back().update(object(summary.measured[rank]));
    }
  }
  replace_file(run_dir / "summary.json", json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void note_unsent(const std::filesystem::path& run_dir, const std::vector<Unsent>& unsent) {
  auto json = read_summary(run_dir);
  if (!json.is_object()) return;  // the run could not write it, which is reported
  for (const auto& one : unsent) json["unsent"][one.name] = {{"problem", one.problem}, {"command", one.command}};
  replace_file(run_dir / "summary.json", json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

RunEnd read_run_end(const std::filesystem::path& run_dir) {
  const auto json = read_summary(run_dir);
  if (!json.is_object()) return {};
  return {.status = text_of(json, "status"),
          .stop_reason = text_of(json, "stop_reason"),
          .steps = number_of<int64_t>(json, "steps", 0),
          .epochs = number_of(json, "epochs", 0.0),
          .samples = number_of<int64_t>(json, "samples", 0),
          .total_seconds = number_of(json, "total_seconds", 0.0),
          .train_seconds = number_of(json, "train_seconds", 0.0),
          .samples_per_second = number_of(json, "samples_per_second", 0.0),
          .tokens_per_second = number_of(json, "tokens_per_second", 0.0),
          .model_flops_per_second = number_of(json, "model_flops_per_second", 0.0),
          .mfu = number_of(json, "mfu", 0.0),
          .metrics = values_of(json, "metrics"),
          .best = values_of(json, "best"),
          .best_step = number_of<int64_t>(json, "best_step", 0),
          .test_correct = number_of<int64_t>(json, "test_correct", -1),
          .test_total = number_of<int64_t>(json, "test_total", -1),
          .checkpoint = text_of(json, "checkpoint"),
          .world_size = number_of<int64_t>(json, "world_size", 1),
          .nodes = number_of<int64_t>(json, "nodes", 1)};
}

std::vector<LoggerTrouble> read_troubles(const std::filesystem::path& run_dir) {
  std::vector<LoggerTrouble> troubles;
  const auto json = read_summary(run_dir);
  if (!json.is_object() || !json.contains("loggers") || !json["loggers"].is_object()) return troubles;
  for (const auto& [name, trouble] : json["loggers"].items()) {
    if (trouble.is_object())
      troubles.push_back({name, number_of<int64_t>(trouble, "lost", 0), text_of(trouble, "problem")});
  }
  return troubles;
}

std::vector<std::string> read_missing(const std::filesystem::path& run_dir) {
  std::vector<std::string> missing;
  const auto json = read_summary(run_dir);
  if (json.is_object() && !text_of(json, "test_error").empty())
    missing.push_back(std::string(kTestFailed) + text_of(json, "test_error"));
  for (const auto& trouble : read_troubles(run_dir)) {
    if (trouble.lost > 0) missing.push_back(trouble.text());
  }
  return missing;
}

}  // namespace ddprun

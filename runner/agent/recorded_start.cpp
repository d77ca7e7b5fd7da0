// SPDX-License-Identifier: MIT
#include "agent/recorded_start.h"

#include "report/run_state.h"

namespace ddprun {

std::optional<RunStart> read_run_start(const std::filesystem::path& run_dir) try {
  const auto json = read_json_file(run_dir / "run.json");
  if (!json.is_object()) return std::nullopt;
  RunStart start{.time = json.at("time"),
                 .name = json.at("name"),
                 .run_dir = run_dir,
                 .attempt = json.at("attempt"),
                 .resumed_step = json.at("resumed_step"),
                 .world_size = json.at("world_size"),
                 .nodes = json.at("nodes"),
                 .global_batch = json.at("global_batch"),
                 .steps_per_epoch = json.at("steps_per_epoch"),
                 .max_epochs = json.at("max_epochs"),
                 .max_steps = json.at("max_steps"),
                 .parameters = json.at("parameters"),
                 .model = json.at("model"),
                 .dataset = json.at("dataset"),
                 .optimizer = json.at("optimizer"),
                 .device = json.at("device"),
                 .backend = json.value("backend", ""),
                 .train_samples = json.value("train_samples", int64_t{0}),
                 .val_samples = json.value("val_samples", int64_t{0}),
                 .test_samples = json.value("test_samples", int64_t{0}),
                 .sample_shape = json.value("sample_shape", std::vector<int64_t>()),
                 .classes = json.value("classes", int64_t{0})};
  for (const auto& rank : json.value("ranks", nlohmann::json::array()))
    start.ranks.push_back({rank.at("host"), rank.at("device")});
  for (const auto& layer : json.at("layers"))
    start.layers.push_back({layer.at("name"), layer.at("kind"), layer.at("shape"), layer.at("parameters")});
  return start;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

}  // namespace ddprun

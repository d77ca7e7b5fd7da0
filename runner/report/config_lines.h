// SPDX-License-Identifier: MIT
// A run's config.yaml: as it stands, each line with where it came from, and as single values to compare with another
// run's.
#pragma once

#include <ddprun/value.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct ConfigLine {
  std::string text;    // "  lr: 0.01"
  std::string origin;  // "configs/optimizer/sgd.yaml:3:5"; empty where the line does not tell
};

std::vector<ConfigLine> read_config_lines(const std::filesystem::path& file);

// Nothing where the file cannot be read as YAML; why is told in `problems`.
std::optional<Value> read_config(const std::filesystem::path& file, std::vector<std::string>& problems);

// {"optimizer.lr", "0.01"}; a list of plain values is one of them: {"model.channels", "[20, 50]"}.
std::vector<std::pair<std::string, std::string>> single_values(const Value& config);

// What the experiment calls best, as its checkpoints do.
struct Goal {
  std::string metric = "val/accuracy";
  bool maximize = true;
};

Goal goal_of(const Value& config);

// The scalar below the keys; `fallback` where there is none.
std::string value_at(const Value& config, const std::vector<std::string>& keys, const std::string& fallback);

}  // namespace ddprun

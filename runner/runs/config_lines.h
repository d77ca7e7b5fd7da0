// SPDX-License-Identifier: MIT
// Reads a run's config.yaml: as lines, each with its origin, and as scalar values to compare with another run's. All
// that read a file throw UserError where open_below() does.
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
  std::string origin;  // "configs/optimizer/sgd.yaml:3:5"; empty where the line does not say
};

std::vector<ConfigLine> read_config_lines(const std::filesystem::path& file);

// Returns nothing if the file cannot be read as YAML; the reason goes to `problems`.
std::optional<Value> read_config(const std::filesystem::path& file, std::vector<std::string>& problems);

// Returns {"optimizer.lr", "0.01"}; a list of scalars counts as one value: {"model.channels", "[20, 50]"}.
std::vector<std::pair<std::string, std::string>> single_values(const Value& config);

// The experiment's criterion for the best checkpoint.
struct Goal {
  std::string metric = "val/accuracy";
  bool maximize = true;
};

Goal goal_of(const Value& config);

// Returns the scalar below the keys, or `fallback` if there is none.
std::string value_at(const Value& config, const std::vector<std::string>& keys, const std::string& fallback);

// The overrides on a run's command line.
using Overrides = std::vector<std::string>;  // of one run, as on its command line

// Returns those recorded in the run's folder; none if it has no record.
Overrides read_overrides(const std::filesystem::path& run);

// Returns for each run the overrides that not all of them have, shortened to the last name of their path if no other
// path among them ends with it: "lr=0.1 layers=2". A run's location (run.dir) is ignored. A single run has nothing to
// be distinguished from.
std::vector<std::string> overrides_apart(const std::vector<Overrides>& runs);

}  // namespace ddprun

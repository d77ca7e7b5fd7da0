// SPDX-License-Identifier: MIT
// Names of what loggers write in the folder of a run, beside what ddprun itself keeps there.
#pragma once

#include <ddprun/options.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

// Returns whether ddprun, or a logger by default, writes the file or folder of this name.
inline bool is_name_in_run(std::string_view name) {
  constexpr std::array<std::string_view, 18> kNames{
      "checkpoints",        "config.yaml", "data.json",   "environment.json", "events.jsonl", "images",
      "kept_elsewhere.txt", "logs",        "metrics.csv", "metrics.jsonl",    "nonfinite",    "overrides.txt",
      "predictions",        "report.html", "run.json",    "summary.json",     "tables.jsonl", "tensorboard"};
  return name.starts_with('.') || std::ranges::find(kNames, name) != kNames.end();
}

// Reads an option that names a file or folder in the run's folder, perhaps within another: "rows/train.csv". Rejects a
// name that leads out of it, or is in use.
inline std::string name_in_run(Options& options, const std::string& key, const std::string& by_default,
                               const std::string& help) {
  auto name = options.get<std::string>(key, by_default, help);
  const auto path = std::filesystem::path(name).lexically_normal();
  if (path.empty() || path == "." || path.is_absolute() || !path.has_filename() || *path.begin() == "..") {
    options.reject(key, "expected a name in the run's folder, such as " + by_default + ", found \"" + name + "\"");
  } else if (name != by_default && is_name_in_run(path.begin()->string())) {
    options.reject(key, path.begin()->string() + " is written by ddprun, or by a logger; choose another name");
  }
  return name;
}

}  // namespace ddprun

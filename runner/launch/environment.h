// SPDX-License-Identifier: MIT
// What a run ran on: enough to run it again, or to tell why it came out otherwise.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// What only the caller knows.
struct RunRecord {
  std::string config_yaml;                                    // the frozen experiment
  std::vector<std::string> overrides;                         // as given on the command line
  std::vector<std::string> arguments;                         // the command itself
  std::vector<std::pair<std::string, std::string>> versions;  // {"ddprun", "0.1.0"}, {"libtorch", ...}
  std::vector<std::filesystem::path> plugin_files;            // recorded with their SHA-256
};

// The file of a run's folder that keeps the uncommitted changes, for its owner alone: nobody knows what is in them.
inline constexpr auto kUncommitted = "uncommitted.diff";

struct RecordedEnvironment {
  std::string json;
  std::string uncommitted;  // changes of the current folder's git repository, at most 1 MB of them; may be empty
};

// A JSON object: time, host, command, the current folder's git commit, versions, CPU, memory, GPUs and driver, plugin
// files, the environment variables that change a run. Values of variables that look like secrets are left out. Never
// throws for what cannot be found out: that key is missing then.
RecordedEnvironment describe_environment(const RunRecord& record, const std::filesystem::path& proc = "/proc");

}  // namespace ddprun

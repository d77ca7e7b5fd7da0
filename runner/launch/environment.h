// SPDX-License-Identifier: MIT
// The environment of a run: enough to run it again, or to explain why it came out differently.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// What only the caller knows.
struct RunRecord {
  int attempt = 0;                                            // RunFolder fills it in
  std::string config_yaml;                                    // the frozen experiment
  std::vector<std::string> overrides;                         // as given on the command line
  std::vector<std::string> arguments;                         // the command itself
  std::vector<std::pair<std::string, std::string>> versions;  // {"ddprun", "0.1.0"}, {"libtorch", ...}
  std::vector<std::filesystem::path> plugin_files;            // recorded with their SHA-256
};

// The file in the run folder with the uncommitted changes, readable by its owner only: nobody knows what is in them.
inline constexpr auto kUncommitted = "uncommitted.diff";

struct RecordedEnvironment {
  std::string json;
  std::string uncommitted;  // at most 1 MB of changes in the current folder's git repository; may be empty
};

// Returns the processor's name as the system has it, or as ARM's numbers say; empty if there is neither.
std::string processor_name(const std::filesystem::path& proc = "/proc");

// Returns a JSON object: time, host, command, the current folder's git commit, versions, CPU, memory, GPUs and driver,
// plugin files, and the environment variables that affect a run. Leaves out values of variables that look like secrets.
// Never throws: a key that cannot be determined is missing.
RecordedEnvironment describe_environment(const RunRecord& record, const std::filesystem::path& proc = "/proc");

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Finds everything that is wrong with one plugin file, whatever it does to the process that loads it.
#pragma once

#include "plugin_host/plugin_file.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

struct PluginCheck {
  PluginInfo info;
  std::vector<std::string> facts;     // what was found to be in order, one sentence each
  std::vector<std::string> problems;  // empty if it can be used
};

// Reads the file's descriptor, then loads it, constructs one object without options and ends, in a child process that
// may crash, or hang up to a limit. `others` are the plugins on the search path, none of which may have its kind and
// name. Forks: call it from the only thread.
PluginCheck check_plugin(const std::filesystem::path& file, const std::vector<PluginInfo>& others,
                         std::chrono::milliseconds patience = std::chrono::minutes(1));

// Runs something that may crash or hang in a child process, which reports by lines of text.
struct TrialEnd {
  std::vector<std::string> lines;  // what the child sent
  std::string problem;  // how it ended, where that was not of its own accord: "SIGSEGV", "exit code 3", "it hangs"
};

// Forks: call it from the only thread. The child runs `work`, which gets a function that sends a line (a newline in it
// becomes "; "), and then ends with _exit(); an exception that leaves `work` aborts it. Throws std::system_error if no
// child can be created.
TrialEnd in_child(const std::function<void(const std::function<void(const std::string&)>& say)>& work,
                  std::chrono::milliseconds patience);

}  // namespace ddprun

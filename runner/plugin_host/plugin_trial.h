// SPDX-License-Identifier: MIT
// Runs something that may crash or hang in a child process, which reports by lines of text.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

struct TrialEnd {
  std::vector<std::string> lines;  // what the child sent
  std::string problem;  // how it ended, where that was not of its own accord: "SIGSEGV", "exit code 3", "it hangs"
};

// Forks: call it from the only thread. The child runs `work`, which gets a function that sends a line (a newline in it
// becomes "; "), and then exits normally, with all exit handlers; an exception that leaves `work` aborts it. Throws
// std::system_error if no child can be created.
TrialEnd in_child(const std::function<void(const std::function<void(const std::string&)>& say)>& work,
                  std::chrono::milliseconds patience);

}  // namespace ddprun

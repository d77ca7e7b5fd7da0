// SPDX-License-Identifier: MIT
// Does something that may crash or hang in a child process, and hears from it by lines of text.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

struct TrialEnd {
  std::vector<std::string> lines;  // what the child said
  std::string problem;  // how it ended, where that was not of its own accord: "SIGSEGV", "exit code 3", "it hangs"
};

// Forks: call it from the only thread. The child runs `work`, which gets a function that sends a line (a newline in it
// becomes "; "), and then ends as a program does, with all that runs at its exit; an exception that leaves `work`
// aborts it. Throws std::system_error where no child can be made.
TrialEnd in_child(const std::function<void(const std::function<void(const std::string&)>& say)>& work,
                  std::chrono::milliseconds patience);

}  // namespace ddprun

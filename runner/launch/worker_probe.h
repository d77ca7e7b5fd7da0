// SPDX-License-Identifier: MIT
// Asks a stalled worker what its training thread is doing.
//
// The question is SIGUSR2 to the worker's main thread. The answer is a file of two lines, written atomically by the
// handler there (worker/crash_handler.h): section and name of base/current_op.h, each empty if there is none.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace ddprun {

struct ProbeAnswer {
  std::string section, name;

  bool waits() const { return section.empty() && !name.empty(); }  // for the other ranks, in a collective
};

// Sends the question. Returns true if there may be an answer: the process exists and handles the signal.
bool probe_worker(pid_t pid);

// Returns nothing if there is no answer.
std::optional<ProbeAnswer> read_probe_answer(const std::filesystem::path& file);

}  // namespace ddprun

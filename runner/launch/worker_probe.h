// SPDX-License-Identifier: MIT
// The launcher's question to a worker that stands still, and its answer: what its training thread is in the middle of.
//
// The question is SIGUSR2 to the worker's main thread. The answer is a file of two lines, written whole or not at all
// by the handler there (worker/crash_handler.h): section and name of base/current_op.h, each empty where there is none.
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

// Whether there may be an answer: the process is there and has a handler for the question.
bool probe_worker(pid_t pid);

// Nothing where there is no answer.
std::optional<ProbeAnswer> read_probe_answer(const std::filesystem::path& file);

}  // namespace ddprun

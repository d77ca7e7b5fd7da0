// SPDX-License-Identifier: MIT
#include "launch/worker_probe.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

namespace ddprun {
namespace {

// Reads the mask of caught signals in /proc, since the question would kill a process that does not catch it.
bool catches(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

}  // namespace

bool probe_worker(pid_t pid) { return catches(pid, SIGUSR2) && ::syscall(SYS_tgkill, pid, pid, SIGUSR2) == 0; }

std::optional<ProbeAnswer> read_probe_answer(const std::filesystem::path& file) {
  std::ifstream answer(file);
  ProbeAnswer probe_answer;
  if (!std::getline(answer, probe_answer.section) || !std::getline(answer, probe_answer.name)) return std::nullopt;
  return probe_answer;
}

}  // namespace ddprun

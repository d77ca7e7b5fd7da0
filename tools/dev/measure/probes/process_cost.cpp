// SPDX-License-Identifier: MIT
#include "process_cost.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace ddprun::scaling {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t status_number(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != name + ":") continue;
    int64_t number = 0;
    std::string unit;
    status >> number >> unit;
    return unit == "kB" ? number * 1024 : number;
  }
  throw std::runtime_error("/proc/self/status has no " + name);
}

int64_t open_files() {
  int64_t files = -1;  // the listing's own
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++files;
  return files;
}

void raise_file_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddprun::scaling

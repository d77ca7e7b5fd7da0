// SPDX-License-Identifier: MIT
// What this process has cost so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun::scaling {

double cpu_seconds();                            // of all its threads
int64_t status_number(const std::string& name);  // of /proc/self/status: "Threads", "VmRSS" in bytes
int64_t open_files();
void raise_file_limit();  // to the most that this user may have

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace ddprun::scaling

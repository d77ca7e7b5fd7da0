// SPDX-License-Identifier: MIT
// Keeps track of who has been heard of lately. The kernel answers for a process that is stopped or hangs, so only a
// process's own messages count as life.
#pragma once

#include "base/clock.h"

#include <chrono>
#include <map>
#include <vector>

namespace ddprun {

// Returns how often each side of a link sends a beat and checks for silence.
inline std::chrono::milliseconds beat_interval(double timeout_seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(seconds(timeout_seconds / 8));
}

class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Liveness(double timeout_seconds) : timeout_(seconds(timeout_seconds)) {}

  void seen(int id, Time now) {
    last_[id] = now;
    if (asked_ == Time{}) asked_ = now;
  }
  void forget(int id) { last_.erase(id); }
  bool knows(int id) const { return last_.contains(id); }

  // Returns those not heard of within the timeout. If the call itself comes late, this process was stopped (Ctrl-Z, a
  // frozen machine) and may not have read what others sent meanwhile: they get their time again.
  std::vector<int> silent(Time now) {
    const bool stood_still = now - asked_ > timeout_ / 2;
    asked_ = now;
    std::vector<int> silent;
    for (auto& [id, last] : last_) {
      if (stood_still) last = now;
      if (now - last >= timeout_) silent.push_back(id);
    }
    return silent;
  }

 private:
  std::chrono::steady_clock::duration timeout_;
  std::map<int, Time> last_;
  Time asked_{};
};

}  // namespace ddprun

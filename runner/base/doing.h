// SPDX-License-Identifier: MIT
// What a thread is in the middle of, for reports of crashes and hangs.
#pragma once

#include <utility>

namespace ddprun {

// A plugin's hook, or a collective. The texts must outlive the scope.
struct Doing {
  const char* section;  // of the experiment, whose plugin's hook it is: "model"; null for a collective
  const char* name;     // "step"; "all-reduce"
};

// The calling thread's innermost, or null. May be read in a signal's handler.
inline constinit thread_local const Doing* current_doing = nullptr;

class DoingScope {
 public:
  explicit DoingScope(const Doing& doing) noexcept : before_(std::exchange(current_doing, &doing)) {}
  ~DoingScope() { current_doing = before_; }
  DoingScope(const DoingScope&) = delete;
  DoingScope& operator=(const DoingScope&) = delete;

 private:
  const Doing* before_;
};

}  // namespace ddprun

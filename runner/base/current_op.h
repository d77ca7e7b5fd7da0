// SPDX-License-Identifier: MIT
// The operation that a thread is in, for reports of crashes and hangs.
#pragma once

#include <utility>

namespace ddprun {

// A plugin's hook, or what may wait for the other ranks. The texts must outlive the scope.
struct CurrentOp {
  const char* section;  // of the experiment, whose plugin's hook it is: "model"; null for what waits
  const char* name;     // "step"; "all-reduce"
};

// The host waits for what it has given to its GPU, which may hold a collective. The GPU's backend, a library of its
// own, has a current_op of its own: its callers say it.
inline constexpr CurrentOp kWaitsForGpu{nullptr, "the GPU's work"};

// The calling thread's innermost operation, or null. A signal handler may read it: so its place is made with the
// thread, also in a library.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local const CurrentOp* current_op = nullptr;

class CurrentOpScope {
 public:
  explicit CurrentOpScope(const CurrentOp& doing) noexcept : before_(std::exchange(current_op, &doing)) {}
  ~CurrentOpScope() { current_op = before_; }
  CurrentOpScope(const CurrentOpScope&) = delete;
  CurrentOpScope& operator=(const CurrentOpScope&) = delete;

 private:
  const CurrentOp* before_;
};

}  // namespace ddprun

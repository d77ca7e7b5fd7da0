// SPDX-License-Identifier: MIT
// Keeps a launcher's own thread free for signals while a file system takes its time, or hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace ddprun {

// Does jobs one after the other on a thread of its own, which takes no signals. All calls are safe from any thread, and
// only wait_for() waits.
class SideThread {
 public:
  SideThread();
  ~SideThread();  // leaves a job that is not done behind, with its thread; what waits behind it is dropped
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Adds a job, which must not throw.
  void post(std::function<void()> job);

  // Waits until all jobs are done; returns false if that takes longer.
  bool wait_for(std::chrono::milliseconds patience) const;

  // Returns for how long the present job has been running; nothing if there is none.
  std::optional<std::chrono::steady_clock::duration> busy_for() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // outlives this object where a job hangs
  std::thread thread_;
};

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "launch/side_thread.h"

#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <utility>

namespace ddprun {

struct SideThread::State {
  void work() {
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [this] { return closing || !jobs.empty(); });
      if (closing) return;
      busy_since = std::chrono::steady_clock::now();
      {
        const auto job = std::exchange(jobs.front(), {});
        lock.unlock();
        job();
      }
      lock.lock();
      jobs.pop_front();
      changed.notify_all();
    }
  }

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::deque<std::function<void()>> jobs;  // the first one is being done
  std::chrono::steady_clock::time_point busy_since;
  bool closing = false;
};

SideThread::SideThread() : state_(std::make_shared<State>()) {
  sigset_t held, before;
  ::sigfillset(&held);
  for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigdelset(&held, crash);
  ::pthread_sigmask(SIG_SETMASK, &held, &before);
  thread_ = std::thread([state = state_] { state->work(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SideThread::~SideThread() {
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  const bool ends = state_->jobs.empty();
  lock.unlock();
  state_->changed.notify_all();
  ends ? thread_.join() : thread_.detach();
}

void SideThread::post(std::function<void()> job) {
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->jobs.empty()) state_->busy_since = std::chrono::steady_clock::now();
    state_->jobs.push_back(std::move(job));
  }
  state_->changed.notify_all();
}

bool SideThread::wait_for(std::chrono::milliseconds patience) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, patience, [this] { return state_->jobs.empty(); });
}

std::optional<std::chrono::steady_clock::duration> SideThread::busy_for() const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->jobs.empty()) return std::nullopt;
  return std::chrono::steady_clock::now() - state_->busy_since;
}

}  // namespace ddprun

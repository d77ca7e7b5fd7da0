// SPDX-License-Identifier: MIT
#include "sender.h"

#include "delivery.h"
#include "warning.h"

#include <ddprun/error.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <future>

namespace ddprun::mlflow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kInterval = seconds(1);    // between checks for new lines: few large requests
constexpr auto kLastMoment = seconds(1);  // for a run that fails
constexpr auto kHurriedPause = milliseconds(300);
constexpr long kLongestPause = 60, kLongestWantedPause = 600;  // seconds
constexpr int kTriesAfterwards = 3;

// Other threads handle signals; a connection's SIGPIPE concerns nobody.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

long pause_after(int failures) { return std::min(kLongestPause, 1L << std::min(failures - 1, 10)); }

}  // namespace

Sender::Sender(Settings settings, std::filesystem::path run_dir)
    : settings_(std::move(settings)), run_dir_(std::move(run_dir)), thread_([this] {
        block_signals();
        work();
      }) {}

Sender::~Sender() {
  if (thread_.joinable()) finish(kLastMoment);
}

std::string Sender::finish(seconds patience) {
  {
    std::unique_lock lock(mutex_);
    hurry_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, patience, [&] { return ended_; });
  }
  given_up_ = true;
  changed_.notify_all();
  thread_.join();
  return left_;
}

void Sender::work() {
  try {
    FileLock file_lock(run_dir_ / "mlflow/lock");
    while (file_lock.try_lock() == LockState::kTaken && !given_up_)
      pause(kInterval);  // `ddprun upload`, or a worker about to end, has it
    Delivery delivery(settings_, run_dir_, given_up_);
    send_all(delivery);
    left_ = delivery.left();
  } catch (const std::exception& error) {
    problem_ = error.what();
    warn("cannot send from " + (run_dir_ / "mlflow").string() + ": " + problem_);
  }
  if (!left_.empty()) left_ += problem_.empty() ? " (out of time)" : " (" + problem_ + ")";
  std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Sender::send_all(Delivery& delivery) {
  while (!given_up_) {
    bool hurried = false;
    {
      std::scoped_lock lock(mutex_);
      hurried = hurry_;  // read first: what was written before counts
    }
    const bool was_away = failures_ > 0;
    try {
      const bool more = delivery.send_some();
      answered();
      if (!more && hurried) return;
      if (!more) pause(kInterval);
    } catch (const NotDelivered& error) {
      if (given_up_) return;
      failed(error.what(), error.retry_after_seconds);
      if (hurried && was_away) return;
    }
  }
}

void Sender::failed(const std::string& problem, long wanted_pause_seconds) {
  problem_ = problem;
  if (++failures_ == 1)
    warn(settings_.uri + ": " + problem + "; the training goes on, and all of it waits in " +
         (run_dir_ / "mlflow").string() + " until the server takes it");
  const auto wanted = std::min(wanted_pause_seconds, kLongestWantedPause);
  pause(seconds(std::max(pause_after(failures_), wanted)));
}

void Sender::answered() {
  if (failures_ > 0) tell("info", settings_.uri + " answers again");
  failures_ = 0;
  problem_.clear();
}

// Pauses only briefly if the run is over.
void Sender::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  if (hurry_) time = std::min(time, milliseconds(kHurriedPause));
  const bool hurried = hurry_;
  changed_.wait_for(lock, time, [&] { return given_up_ || hurry_ != hurried; });
}

void send_rest(const Settings& settings, const std::filesystem::path& run_dir) {
  std::atomic<bool> given_up = false;
  Delivery delivery(settings, run_dir, given_up);
  const auto waiting = delivery.left();
  const auto send = [&] {
    block_signals();
    for (int failures = 0;;) {
      try {
        if (!delivery.send_some()) return std::string();
        failures = 0;
      } catch (const NotDelivered& error) {
        if (++failures == kTriesAfterwards) return std::string(error.what());
        std::this_thread::sleep_for(seconds(std::max(pause_after(failures), std::min(error.retry_after_seconds, 10L))));
      }
    }
  };
  const auto problem = std::async(std::launch::async, send).get();
  if (problem.empty() && !waiting.empty())
    std::printf("mlflow: sent %s to %s\n", waiting.c_str(), settings.uri.c_str());
  if (problem.empty()) return;
  throw UserError(settings.uri + ": " + problem + "; not sent: " + delivery.left() + ". `ddprun upload " +
                  run_dir.string() + "` tries again");
}

}  // namespace ddprun::mlflow

// SPDX-License-Identifier: MIT
#include "agent/early_signals.h"

#include "base/spawn.h"
#include "launch/signal_inbox.h"
#include "launch/worker_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

namespace ddprun {
namespace {

sigset_t mask_at_start;

}  // namespace

void end_unbegun(int signal) noexcept {
  constexpr std::string_view kText = "ddprun: asked to stop before the run had started\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  const bool to_be_run_again = std::ranges::find(kStopSignals, signal) != kStopSignals.end();
  for (;;)  // _exit() is for the plugin whose hook this may have come into
    ::syscall(SYS_exit_group, to_be_run_again ? kExitPreempted : kExitSignalBase + signal);
}

void hold_early_signals(const sigset_t& mask) noexcept {
  mask_at_start = mask;
  auto held = mask;
  for (const int signal : kStopSignals) ::sigaddset(&held, signal);
  ::pthread_sigmask(SIG_SETMASK, &held, nullptr);
}

void release_early_signals() noexcept { ::pthread_sigmask(SIG_SETMASK, &mask_at_start, nullptr); }

EarlySignals::EarlySignals() {
  for (const int signal : kStopSignals) std::signal(signal, end_unbegun);
  const auto signals = signal_set(std::array{SIGTERM, SIGUSR1, SIGINT, SIGHUP});
  ::pthread_sigmask(SIG_UNBLOCK, &signals, &before_);
}

EarlySignals::~EarlySignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  const auto signals = signal_set(kStopSignals);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int signal : kStopSignals) direct_to_this_thread(signal);
}

}  // namespace ddprun

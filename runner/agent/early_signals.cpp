// SPDX-License-Identifier: MIT
#include "agent/early_signals.h"

#include "base/spawn.h"
#include "launch/worker_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>

namespace ddprun {
namespace {

sigset_t mask_at_start;

void end_to_be_run_again(int) {
  constexpr std::string_view kText = "ddprun: asked to stop before the run had begun\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::syscall(SYS_exit_group, kExitPreempted);  // _exit() is for the plugin whose hook this may have come into
}

}  // namespace

void hold_early_signals() noexcept {
  const auto signals = signal_set(kStopSignals);
  ::pthread_sigmask(SIG_BLOCK, &signals, &mask_at_start);
}

void release_early_signals() noexcept { ::pthread_sigmask(SIG_SETMASK, &mask_at_start, nullptr); }

EarlySignals::EarlySignals() {
  for (const int signal : kStopSignals) std::signal(signal, end_to_be_run_again);
  const auto signals = signal_set(std::array{SIGTERM, SIGUSR1, SIGINT, SIGHUP});
  ::pthread_sigmask(SIG_UNBLOCK, &signals, &before_);
}

EarlySignals::~EarlySignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  const auto signals = signal_set(kStopSignals);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int signal : kStopSignals) std::signal(signal, SIG_DFL);
}

}  // namespace ddprun

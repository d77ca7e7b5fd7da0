// SPDX-License-Identifier: MIT
#include "cli/early_signals.h"

#include "launch/worker_process.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace ddprun {
namespace {

void end_to_be_run_again(int) {
  constexpr std::string_view kText = "ddprun: asked to stop before the run had begun\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(kExitPreempted);
}

void set_handler(void (*handler)(int)) {
  std::signal(SIGTERM, handler);
  std::signal(SIGUSR1, handler);
}

}  // namespace

EarlySignals::EarlySignals() { set_handler(end_to_be_run_again); }

EarlySignals::~EarlySignals() { set_handler(SIG_DFL); }

}  // namespace ddprun

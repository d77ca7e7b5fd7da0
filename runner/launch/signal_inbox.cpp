// SPDX-License-Identifier: MIT
#include "launch/signal_inbox.h"

#include "base/spawn.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace ddprun {
namespace {

// The kernel queues blocked signals even if they are ignored, so those must not be blocked at all.
bool ignored(int signal) {
  struct sigaction action = {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

SignalInbox::SignalInbox() {
  auto wanted = signal_set(std::array{SIGTERM, SIGUSR1, SIGCHLD});
  for (const int signal : {SIGINT, SIGHUP, SIGTSTP}) {
    if (!ignored(signal)) ::sigaddset(&wanted, signal);
  }
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;  // with a parent's SIG_IGN, our children would be reaped automatically
  action.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &action, &old_child_);
  action.sa_handler = SIG_IGN;
  action.sa_flags = 0;
  ::sigaction(SIGPIPE, &action, &old_pipe_);
  ::pthread_sigmask(SIG_BLOCK, &wanted, &old_mask_);
  fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.open()) throw std::system_error(errno, std::generic_category(), "signalfd");
}

SignalInbox::~SignalInbox() {
  fd_.reset();
  ::sigaction(SIGCHLD, &old_child_, nullptr);
  ::sigaction(SIGPIPE, &old_pipe_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::vector<int> SignalInbox::take() {
  std::vector<int> signals;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

}  // namespace ddprun

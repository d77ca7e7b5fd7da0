// SPDX-License-Identifier: MIT
#include "launch/signal_inbox.h"

#include "base/spawn.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

std::atomic<pid_t> takes_signals = 0;  // the thread

// Runs in whichever thread lets the signal through. If that is the one that was to take it, it no longer does.
void pass_on(int signal) {
  const int error = errno;
  const pid_t thread = takes_signals;
  if (thread == ::gettid()) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // acts when this function has returned
  } else {
    ::tgkill(::getpid(), thread, signal);
  }
  errno = error;
}

// The kernel queues blocked signals even if they are ignored, so those must not be blocked at all.
bool ignored(int signal) {
  struct sigaction action = {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

void direct_to_this_thread(int signal) noexcept {
  takes_signals = ::gettid();
  struct sigaction action = {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
  ::sigaction(signal, &action, nullptr);
}

SignalInbox::SignalInbox() {
  std::vector<int> wanted{SIGTERM, SIGUSR1, SIGCHLD};
  for (const int signal : {SIGINT, SIGHUP, SIGTSTP}) {
    if (!ignored(signal)) wanted.push_back(signal);
  }
  const auto mask = signal_set(wanted);
  ::pthread_sigmask(SIG_BLOCK, &mask, &old_mask_);
  const auto remember = [&](int signal) { ::sigaction(signal, nullptr, &old_.emplace_back(Replaced{signal}).action); };
  for (const int signal : wanted) {
    remember(signal);
    direct_to_this_thread(signal);  // SIGCHLD, too: with a parent's SIG_IGN, our children would be reaped automatically
  }
  remember(SIGPIPE);
  std::signal(SIGPIPE, SIG_IGN);
  fd_ = UniqueFd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.open()) throw std::system_error(errno, std::generic_category(), "signalfd");
}

SignalInbox::~SignalInbox() {
  fd_.reset();
  for (const auto& [signal, action] : old_) ::sigaction(signal, &action, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::vector<int> SignalInbox::take() {
  std::vector<int> signals;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

std::future<void> aside(std::function<void()> job) {
  std::packaged_task<void()> task(std::move(job));
  auto done = task.get_future();
  start_without_signals(std::move(task)).detach();
  return done;
}

}  // namespace ddprun

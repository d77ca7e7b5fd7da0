// SPDX-License-Identifier: MIT
// Starts one process: forked from a server that has loaded its libraries (base/fork_server.h), else by fork, a few
// async-signal-safe calls, and exec.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {

// Owns a file descriptor and closes it. Who opens it decides about close-on-exec, which all of ours have.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }  // the caller closes it
  void reset();

 private:
  int fd_;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;  // blocking, as programs expect of their standard output
};

enum class ReadEnd { kNonBlocking, kBlocking };  // kBlocking for what a program gets as its standard input

// Makes a close-on-exec pipe with both ends above 2, so that they survive the shuffling of a child's standard streams.
// Throws std::system_error.
Pipe make_pipe(ReadEnd read_end = ReadEnd::kNonBlocking);

struct SpawnRequest {
  std::vector<std::string> command;      // command[0] is a path, not searched on PATH
  std::vector<std::string> environment;  // "NAME=value", the whole of it
  int stdout_fd = -1;                    // -1: the caller's own
  int stderr_fd = -1;
  std::vector<int> blocked;  // signals that it starts with blocked
  std::vector<int> cores;    // that it runs on, as far as the system lets it; empty: the caller's
};

// Returns this process's environment, "NAME=value" each.
std::vector<std::string> own_environment();

// Returns the child's id once exec has succeeded; the caller reaps it. The child reads /dev/null, leads a process group
// of its own (a terminal's Ctrl-C does not reach it), starts with no other signal blocked and all at their defaults (an
// ignored SIGHUP stays ignored: nohup), and is killed by the kernel when the calling THREAD ends, however that happens.
// Its own children are not killed: who reaps it must end its group. Throws std::system_error with the program's
// path if exec fails.
pid_t spawn(const SpawnRequest& request);

// Makes a set from signal numbers in any container.
template <class Signals>
sigset_t signal_set(const Signals& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

// Starts a thread that takes no signals, for they must go to the program's main thread. Its own faults end it all the
// same.
template <class Run>
std::thread start_without_signals(Run&& run) {
  sigset_t all, old;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  std::thread thread(std::forward<Run>(run));
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return thread;
}

// Returns "SIGSEGV", or "signal 77" if it has no name.
inline std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

}  // namespace ddprun

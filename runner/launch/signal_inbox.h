// SPDX-License-Identifier: MIT
// The signals that a launcher handles, as a file descriptor to poll, and what keeps its own thread free for them.
#pragma once

#include "base/spawn.h"

#include <csignal>
#include <functional>
#include <future>
#include <vector>

namespace ddprun {

// Makes a signal of the process come to the calling thread, which blocks it, even where a library's thread lets
// it through: CUDA's driver has such threads, and a default action would end the program. It is for the main thread.
void direct_to_this_thread(int signal) noexcept;

// While it lives, SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP and SIGCHLD of the process wait to be taken by the calling
// thread, the main one, instead of acting. SIGINT and SIGHUP that were ignored when it was made (nohup, a shell's
// background job) stay ignored, and SIGPIPE is. The destructor restores everything.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int fd() const { return fd_.get(); }
  std::vector<int> take();  // those that came since, in no particular order; never blocks

 private:
  struct Replaced {
    int signal;
    struct sigaction action;
  };

  sigset_t old_mask_;
  std::vector<Replaced> old_;
  UniqueFd fd_;
};

// Does a job on a thread of its own, which takes no signals: a file system may take its time, or hang. The future gets
// what it throws. Nobody waits for the thread: not the future's destructor, and not the end of the program.
std::future<void> aside(std::function<void()> job);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// The signals that a launcher handles, as a file descriptor to poll.
#pragma once

#include "base/spawn.h"

#include <csignal>
#include <vector>

namespace ddprun {

// While it lives, SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP and SIGCHLD of the calling thread wait to be taken instead
// of acting. SIGINT and SIGHUP that were ignored when it was made (nohup, a shell's background job) stay ignored, and
// SIGPIPE is. The destructor restores everything. For single-threaded programs.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int fd() const { return fd_.get(); }
  std::vector<int> take();  // those that came since, in no particular order; never blocks

 private:
  sigset_t old_mask_;
  struct sigaction old_child_, old_pipe_;
  UniqueFd fd_;
};

}  // namespace ddprun

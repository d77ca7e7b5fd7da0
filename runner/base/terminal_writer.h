// SPDX-License-Identifier: MIT
// Writes lines to the launcher's standard error without blocking: a pager that nobody scrolls, or a terminal stopped
// with Ctrl-S, would otherwise stop the training.
#pragma once

#include <deque>
#include <string>

namespace ddprun {

class TerminalWriter {
 public:
  explicit TerminalWriter(int fd);
  ~TerminalWriter();  // tries for a second to write what is waiting
  TerminalWriter(const TerminalWriter&) = delete;
  TerminalWriter& operator=(const TerminalWriter&) = delete;

  // Writes now, or keeps the line until flush() finds the descriptor ready. Drops the oldest of more than a thousand.
  void line(const std::string& text);
  void flush();
  bool waiting() const { return !waiting_.empty(); }  // if so, poll fd() for POLLOUT
  int fd() const { return fd_; }

 private:
  bool ready(int timeout_ms) const;

  int fd_;
  std::string begin_;  // clears a progress bar on the terminal's line
  std::deque<std::string> waiting_;
};

}  // namespace ddprun

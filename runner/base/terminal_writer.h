// SPDX-License-Identifier: MIT
// Lines for the launcher's standard error, which must not make the launcher wait: a pager that nobody scrolls or a
// terminal stopped with Ctrl-S would otherwise stop the training.
#pragma once

#include <deque>
#include <string>

namespace ddprun {

class TerminalWriter {
 public:
  explicit TerminalWriter(int fd);
  ~TerminalWriter();  // tries for a second to write what waits
  TerminalWriter(const TerminalWriter&) = delete;
  TerminalWriter& operator=(const TerminalWriter&) = delete;

  // Writes now, or keeps the line until flush() finds the descriptor ready. Of more than a thousand the oldest are
  // dropped.
  void line(const std::string& text);
  void flush();
  bool waiting() const { return !waiting_.empty(); }  // then poll fd() for POLLOUT
  int fd() const { return fd_; }

 private:
  bool ready(int timeout_ms) const;

  int fd_;
  std::string begin_;  // clears a progress bar that stands on the terminal's line
  std::deque<std::string> waiting_;
};

}  // namespace ddprun

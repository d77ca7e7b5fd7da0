// SPDX-License-Identifier: MIT
#include "base/terminal_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>

namespace ddprun {
namespace {
using Clock = std::chrono::steady_clock;
constexpr size_t kMostTexts = 1000;
constexpr std::chrono::seconds kLastTry{1};
constexpr int kPollMs = 100;
}  // namespace

TerminalWriter::TerminalWriter(int fd) : fd_(fd) {
  if (::isatty(fd) && ::isatty(STDOUT_FILENO)) begin_ = "\r\033[K";
}

TerminalWriter::~TerminalWriter() {
  flush();
  const auto end = Clock::now() + kLastTry;
  while (waiting() && Clock::now() < end) {
    if (ready(kPollMs)) flush();
  }
}

void TerminalWriter::line(const std::string& text) {
  if (waiting_.size() == kMostTexts) waiting_.erase(waiting_.begin() + 1);  // the first may be half written
  waiting_.push_back(begin_ + text + "\n");
  flush();
}

// A descriptor that is ready takes at least PIPE_BUF bytes without blocking. What cannot be written because the
// terminal is gone is dropped; the logs have it.
void TerminalWriter::flush() {
  while (!waiting_.empty() && ready(0)) {
    std::string& text = waiting_.front();
    const ssize_t done = ::write(fd_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (done > 0 && static_cast<size_t>(done) < text.size()) {
      text.erase(0, static_cast<size_t>(done));
    } else {
      waiting_.pop_front();
    }
  }
}

bool TerminalWriter::ready(int timeout_ms) const {
  pollfd poll{fd_, POLLOUT, 0};
  return ::poll(&poll, 1, timeout_ms) == 1;
}

}  // namespace ddprun

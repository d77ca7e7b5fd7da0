// SPDX-License-Identifier: MIT
#include "base/terminal.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <sstream>

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

size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  return std::ranges::all_of(text.substr(1, length - 1), continues) ? length : 0;
}

bool is_utf8(std::string_view text) { return as_utf8(text) == text; }

std::string as_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto length = utf8_length(text);
    result += length == 0 ? "?" : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::string cut_back(const std::string& text, size_t width) {
  if (width_of(text) <= width) return text;
  size_t end = 0;
  for (size_t kept = 0; kept < width - 3; ++kept) {
    do {
      ++end;
    } while (end < text.size() && (text[end] & 0xC0) == 0x80);
  }
  return text.substr(0, end) + "...";
}

std::string wrapped(const std::string& text, size_t column, size_t indent) {
  std::istringstream words(text);
  std::string result;
  bool line_is_empty = true;
  for (std::string word; words >> word;) {
    if (!line_is_empty && column + 1 + width_of(word) > kTextWidth) {
      result += '\n';
      result.append(indent, ' ');
      column = indent;
      line_is_empty = true;
    }
    result += (line_is_empty ? "" : " ") + word;
    column += width_of(word) + (line_is_empty ? 0 : 1);
    line_is_empty = false;
  }
  return result;
}

std::string paragraph(const std::string& text, size_t indent) {
  return std::string(indent, ' ') + wrapped(text, indent, indent) + "\n";
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string grouped(int64_t count) {
  auto text = std::to_string(count);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

}  // namespace ddprun

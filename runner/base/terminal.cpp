// SPDX-License-Identifier: MIT
#include "base/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
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
  const auto columns = terminal_columns(fd_);
  waiting_.push_back(begin_ + (columns ? fitted(text, *columns) : text) + "\n");
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

std::optional<size_t> terminal_columns(int fd) {
  if (::isatty(fd) == 0) return std::nullopt;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kTextWidth;
}

namespace {

size_t end_of_word(std::string_view text, size_t begin) {
  const auto rest = text.substr(begin);
  const auto line = rest.substr(0, rest.find('\n'));
  if (line.starts_with("ddprun ") && text.substr(0, begin).ends_with(": ")) return begin + line.size();
  const auto closing = line.starts_with('`') ? line.find('`', 1) : line.npos;
  return begin + std::min(line.find(' ', closing == line.npos ? 0 : closing), line.size());
}

}  // namespace

std::string fitted(std::string_view text, size_t columns, size_t column) {
  constexpr std::string_view kIndent = "  ";
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      result += text[at++];
      column = 0;
      continue;
    }
    const auto begin = std::min(text.find_first_not_of(' ', at), text.size());
    const auto end = end_of_word(text, begin);
    const bool fits = column == 0 || column + width_of(text.substr(at, end - at)) <= columns;
    const auto part = fits ? text.substr(at, end - at) : text.substr(begin, end - begin);
    if (!fits) result.append("\n").append(kIndent);
    result += part;
    column = (fits ? column : kIndent.size()) + width_of(part);
    at = end;
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

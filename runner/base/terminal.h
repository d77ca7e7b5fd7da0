// SPDX-License-Identifier: MIT
// What a terminal shows: lines that nothing waits for, and text of 80 columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Writes lines to the launcher's standard error without blocking: a pager that nobody scrolls, or a terminal stopped
// with Ctrl-S, would otherwise stop the training.
class TerminalWriter {
 public:
  explicit TerminalWriter(int fd);
  ~TerminalWriter();  // tries for a second to write what is waiting
  TerminalWriter(const TerminalWriter&) = delete;
  TerminalWriter& operator=(const TerminalWriter&) = delete;

  // Writes now, fitted to a terminal, or keeps the line until flush() finds the descriptor ready. Drops the oldest of
  // more than a thousand.
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

inline constexpr size_t kTextWidth = 80;

// Returns the columns of the terminal that the descriptor is, kTextWidth if it does not say; nothing if it is none.
std::optional<size_t> terminal_columns(int fd);

// Breaks lines that are wider between words, where a terminal would break them anywhere, and indents what follows. A
// word that is too wide stays whole, and so does a command, in backquotes or after a colon, so that it can be copied.
// The first line starts at `column`.
std::string fitted(std::string_view text, size_t columns, size_t column = 0);

// Returns the columns that a terminal gives a UTF-8 text, for most scripts of the world.
size_t width_of(std::string_view text);

// Cuts the text to this width, with "..." at the end if something is left out.
std::string cut_back(const std::string& text, size_t width);

// Wraps the words of `text` to lines of at most kTextWidth, unless a single word is wider. Indents all lines but the
// first, which starts at `column`.
std::string wrapped(const std::string& text, size_t column, size_t indent);

// Wraps the text to lines of its own, all of them indented.
std::string paragraph(const std::string& text, size_t indent);

// Appends spaces up to this width.
std::string padded(const std::string& text, size_t width);

std::string grouped(int64_t count);  // "60,000"

}  // namespace ddprun

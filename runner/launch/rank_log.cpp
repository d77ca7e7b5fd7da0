// SPDX-License-Identifier: MIT
#include "launch/rank_log.h"

#include "base/call_lines.h"
#include "base/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ddprun {
namespace {
constexpr size_t kLongestLine = 64 << 10;
constexpr size_t kLastLines = 10, kMostLines = 40;  // without a crash's backtrace, and with it
constexpr size_t kLastLineBytes = 500;
}  // namespace

LogFile::LogFile(std::filesystem::path path, Warn warn)
    : path_(std::move(path)),
      warn_(std::move(warn)),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!fd_.open()) tell_failure();
}

void LogFile::append(std::string_view text) {
  if (lost_bytes_ > 0) {
    if (!write("\n[ddprun: " + std::to_string(lost_bytes_) +
               " bytes are missing here: the file could not be written]\n")) {
      lost_bytes_ += text.size();
      return;
    }
    lost_bytes_ = 0;
  }
  write(text);
}

bool LogFile::write(std::string_view text) {
  if (write_all(fd_.get(), text)) return true;
  tell_failure();
  lost_bytes_ += text.size();
  return false;
}

void LogFile::tell_failure() {
  const std::string cause = std::strerror(errno);
  if (std::exchange(warned_, true)) return;
  warn_("cannot write " + path_.string() + ": " + cause + "; the run goes on, this log has gaps");
}

void LineCutter::feed(std::string_view text, const Take& take) {
  for (;;) {
    const size_t end = text.find('\n');
    const auto piece = text.substr(0, end);
    if (end == std::string_view::npos) {
      partial_ += piece;
      if (partial_.size() > kLongestLine) this->end(take);
      return;
    }
    if (partial_.empty()) {
      take(piece);
    } else {
      partial_ += piece;
      this->end(take);
    }
    text.remove_prefix(end + 1);
  }
}

void LineCutter::end(const Take& take) {
  if (partial_.empty()) return;
  take(partial_);
  partial_.clear();
}

void LastLines::add(std::string_view line) {
  lines_.emplace_back(line.substr(0, kLastLineBytes));
  if (!is_call_line(line)) ++others_;
  for (; others_ > kLastLines || lines_.size() > kMostLines; lines_.pop_front())
    if (!is_call_line(lines_.front())) --others_;
}

}  // namespace ddprun

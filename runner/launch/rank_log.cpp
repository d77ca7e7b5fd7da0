// SPDX-License-Identifier: MIT
#include "launch/rank_log.h"

#include "base/call_lines.h"
#include "base/spawn.h"

#include <ddprun/files.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

namespace ddprun {
namespace {
constexpr size_t kLongestLine = 64 << 10;
constexpr size_t kLastLines = 10, kMostLines = 40;  // without a crash's backtrace, and with it
constexpr size_t kLastLineBytes = 500;

constexpr size_t kMostWaiting = 4 << 20;                // bytes, for a log file
constexpr auto kLogPatience = std::chrono::seconds(2);  // with a log file that takes nothing

std::string gap_text(size_t bytes) {
  return "\n[ddprun: " + std::to_string(bytes) + " bytes are missing here: the file could not be written]\n";
}

}  // namespace

// What the owner and the thread share; it outlives the LogFile where the thread hangs.
struct LogFile::Writer {
  void work(const std::filesystem::path& path);
  void write(int fd, std::string_view text);
  void note_failure();  // from errno
  void mark_gap() {
    if (lost > 0) waiting += gap_text(std::exchange(lost, 0));
  }

  // Waits for what the thread does next, unless it hangs already. Returns false where it does.
  template <class Condition>
  bool wait(std::unique_lock<std::mutex>& lock, const Condition& condition) {
    if (condition()) return true;
    if (!hangs) hangs = !progress.wait_for(lock, kLogPatience, condition);
    if (hangs && failure.empty()) failure = "it takes nothing; its file system hangs";
    return !hangs;
  }

  std::mutex mutex;
  std::condition_variable arrived, progress;
  std::string waiting;
  std::string failure;  // the first
  size_t lost = 0;      // bytes that came after `waiting`
  bool idle = false, hangs = false, closing = false;

  size_t unwritten = 0;  // bytes that came before `waiting`; the thread's own
};

void LogFile::Writer::work(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.open()) note_failure();
  for (std::unique_lock lock(mutex);;) {
    idle = waiting.empty();
    hangs = false;
    progress.notify_all();
    arrived.wait(lock, [this] { return closing || !waiting.empty(); });
    if (waiting.empty()) return;
    idle = false;
    const std::string text = std::exchange(waiting, {});
    progress.notify_all();
    lock.unlock();
    write(fd.get(), text);
    lock.lock();
  }
}

void LogFile::Writer::write(int fd, std::string_view text) {
  const std::string gap = unwritten > 0 ? gap_text(unwritten) : "";
  std::string_view left = gap;
  if (write_all(fd, left)) {
    unwritten = 0;
    if (write_all(fd, text)) return;
  }
  unwritten += text.size();
  note_failure();
}

void LogFile::Writer::note_failure() {
  const std::string cause = std::strerror(errno);
  std::scoped_lock lock(mutex);
  if (failure.empty()) failure = cause;
}

LogFile::LogFile(std::filesystem::path path, Warn warn)
    : path_(std::move(path)),
      warn_(std::move(warn)),
      writer_(std::make_shared<Writer>()),
      thread_([writer = writer_, path = path_] { writer->work(path); }) {}

LogFile::~LogFile() {
  flush();
  std::unique_lock lock(writer_->mutex);
  writer_->closing = true;
  const bool ends = writer_->idle;
  lock.unlock();
  writer_->arrived.notify_one();
  ends ? thread_.join() : thread_.detach();
}

void LogFile::append(std::string_view text) {
  std::unique_lock lock(writer_->mutex);
  const auto has_room = [&] { return writer_->waiting.size() + text.size() <= kMostWaiting; };
  if (writer_->wait(lock, has_room)) {
    writer_->mark_gap();
    writer_->waiting += text;
    writer_->arrived.notify_one();
  } else {
    writer_->lost += text.size();
  }
  lock.unlock();
  report_failure();
}

void LogFile::flush() {
  std::unique_lock lock(writer_->mutex);
  writer_->mark_gap();
  writer_->arrived.notify_one();
  writer_->wait(lock, [this] { return writer_->idle && writer_->waiting.empty(); });
  lock.unlock();
  report_failure();
}

void LogFile::report_failure() {
  std::unique_lock lock(writer_->mutex);
  if (writer_->failure.empty() || std::exchange(reported_, true)) return;
  const std::string cause = writer_->failure;
  lock.unlock();
  warn_("cannot write " + path_.string() + ": " + cause + "; the run continues, this log has gaps");
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

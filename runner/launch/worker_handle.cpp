// SPDX-License-Identifier: MIT
#include "launch/worker_handle.h"

#include "base/call_lines.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/line_folder.h"
#include "base/log.h"
#include "base/program.h"
#include "launch/worker_process.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>

namespace ddprun {
namespace {

// Reads the mask of caught signals in /proc, since the question would kill a process that does not catch it.
bool catches(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

// Returns ddprun's own code for that of a worker.
int exit_code_of(int code) {
  if (code == kWorkerDone) return kExitDone;
  return code == kWorkerRollsBack ? kExitPreempted : code;
}

}  // namespace

bool probe_worker(pid_t pid) { return catches(pid, SIGUSR2) && ::syscall(SYS_tgkill, pid, pid, SIGUSR2) == 0; }

std::optional<ProbeAnswer> read_probe_answer(const std::filesystem::path& file) {
  std::ifstream answer(file);
  ProbeAnswer probe_answer;
  if (!std::getline(answer, probe_answer.section) || !std::getline(answer, probe_answer.name)) return std::nullopt;
  return probe_answer;
}

namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kMostLeftBytes = 8 << 20;  // read after the end, at most: a grandchild may print forever

std::string binding(const std::vector<int>& cores, pid_t pid) {
  if (cores.empty()) return "";
  const bool is_bound = cores_of_process(pid) == cores;
  return (is_bound ? ", bound to the cores next to its GPU: " : ", could not be bound to the cores next to its GPU: ") +
         join_numbers({cores.begin(), cores.end()});
}

// Returns the letter after the program's name, which may itself contain parentheses.
char process_state(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  return end == text.npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

}  // namespace

WorkerHandle::WorkerHandle(int rank, const std::filesystem::path& log, ShowLine show, LogFile::Warn warn)
    : show_(std::move(show)), log_(log, std::move(warn)) {
  end_.rank = rank;
  end_.log = log;
}

WorkerHandle::~WorkerHandle() {
  if (!running()) return;
  ::kill(-pid_, SIGKILL);
  wait_until(pid_, std::chrono::steady_clock::now() + std::chrono::seconds(10));  // it may hang in the kernel
}

void WorkerHandle::start(const std::string& what, SpawnRequest worker) {
  Pipe err = make_pipe(), out;
  if (rank() != 0) out = make_pipe();
  worker.stdout_fd = out.write.get();
  worker.stderr_fd = err.write.get();
  worker.blocked = {kStopSignals.begin(), kStopSignals.end()};
  pid_ = spawn(worker);
  log_.append(log::text(time_stamp(), "  ", what, ", process ", pid_, binding(worker.cores, pid_), "\n"));
  out_.fd = std::move(out.read);
  err_.fd = std::move(err.read);
}

void WorkerHandle::reap() {
  siginfo_t ended{};
  if (!running() || ::waitid(P_PID, pid_, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != pid_) return;
  ::kill(-pid_, SIGKILL);  // also kills what it has started; the group's number is its own until it is reaped
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) note_end(status);
}

void WorkerHandle::note_end(int status) {
  pid_ = -1;
  end_.time = steady_seconds();
  if (WIFSIGNALED(status)) {
    end_.signal = WTERMSIG(status);
    end_.killed_by_launcher = (end_.signal == SIGTERM && sent_term_) || (end_.signal == SIGKILL && sent_kill_);
    const auto beat = read_beat(heartbeat_);
    const bool had_begun = !beat || beat->activity != Activity::kStarting;
    if (!end_.killed_by_launcher || (!had_begun && !end_.stall)) note_last_beat();
  } else if (WEXITSTATUS(status) == 0) {
    note_end_undone();
  } else {
    end_.exit_code = exit_code_of(WEXITSTATUS(status));
    end_.rolls_back = WEXITSTATUS(status) == kWorkerRollsBack;
  }
}

void WorkerHandle::note_end_undone() {
  end_.exit_code = kExitFailed;
  end_.failure = {.rank = rank(),
                  .time = end_.time,
                  .kind = FailureKind::kInternal,
                  .message = "_exit(0) was called before the work was done, by a plugin or one of its libraries"};
  const auto beat = read_beat(heartbeat_);
  if (!beat) return;
  end_.failure->phase = name_of(beat->activity);
  end_.failure->step = beat->step;
}

void WorkerHandle::note_last_beat() {
  if (const auto beat = read_beat(heartbeat_)) end_.stall = {.activity = beat->activity, .step = beat->step};
}

void WorkerHandle::send(int signal) {
  bool& sent = signal == SIGKILL ? sent_kill_ : sent_term_;
  if (running() && !std::exchange(sent, true)) ::kill(pid_, signal);
}

void WorkerHandle::pause() {
  if (running()) ::kill(pid_, SIGSTOP);
}

void WorkerHandle::unpause() {
  if (running()) ::kill(pid_, SIGCONT);
}

std::string WorkerHandle::abandon() {
  end_.signal = SIGKILL;
  end_.killed_by_launcher = true;
  return "rank " + std::to_string(rank()) + " (process " + std::to_string(std::exchange(pid_, -1)) +
         ") survives SIGKILL: it hangs in the kernel (a file system or a driver) and ends when that returns";
}

std::optional<Stall> WorkerHandle::stall(std::chrono::steady_clock::time_point awake_since) const {
  const auto beat = running() ? read_beat(heartbeat_) : std::nullopt;
  if (!beat) return std::nullopt;
  const auto idle = std::chrono::steady_clock::now() - std::max(beat->at, awake_since);
  return Stall{.activity = beat->activity,
               .step = beat->step,
               .seconds = std::chrono::duration<double>(idle).count(),
               .state = process_state(pid_)};
}

std::vector<int> WorkerHandle::fds() const {
  std::vector<int> fds;
  for (const Stream* stream : {&out_, &err_}) {
    if (stream->fd.open()) fds.push_back(stream->fd.get());
  }
  return fds;
}

void WorkerHandle::drain() { drain_once(); }

size_t WorkerHandle::drain_once() {
  const size_t out = drain(out_, [this](std::string_view line) { last_lines_.add(line); });
  const size_t err = drain(err_, [this](std::string_view line) { take_error_line(line); });
  return out + err;
}

// The report shows the calls that led to a crash, with names.
void WorkerHandle::take_error_line(std::string_view line) {
  last_lines_.add(line);
  if (!is_call_line(line) && !line.ends_with(kCallsFollow)) show_(rank(), line);
}

size_t WorkerHandle::drain(Stream& stream, const LineCutter::Take& take) {
  if (!stream.fd.open()) return 0;
  std::array<char, kReadBytes> buffer;
  const ssize_t got = ::read(stream.fd.get(), buffer.data(), buffer.size());
  if (got > 0) {
    const std::string_view text(buffer.data(), static_cast<size_t>(got));
    log_.append(text);
    stream.lines.feed(text, take);
    return text.size();
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  stream.lines.end(take);
  stream.fd.reset();
  return 0;
}

void WorkerHandle::log_failure(const std::string& message) {
  log_.append("rank " + std::to_string(rank()) + ": error: " + message + "\n");
}

void WorkerHandle::finish_output() {
  for (size_t total = 0; total < kMostLeftBytes;) {
    const size_t got = drain_once();
    if (got == 0) break;
    total += got;
  }
  out_.lines.end([this](std::string_view line) { last_lines_.add(line); });
  err_.lines.end([this](std::string_view line) { take_error_line(line); });
  out_.fd.reset();
  err_.fd.reset();
  log_.flush();
}

bool WorkerHandle::failed() const {
  if (running()) return false;
  return end_.signal != 0 || (end_.exit_code != kExitDone && end_.exit_code != kExitPreempted);
}

WorkerEnd WorkerHandle::end() const {
  WorkerEnd end = end_;
  end.last_lines = with_named_calls(last_lines_.lines());
  return end;
}

}  // namespace ddprun

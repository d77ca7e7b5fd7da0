// SPDX-License-Identifier: MIT
// One worker as its launcher sees it: the process, the pipes it prints to, its log.
#pragma once

#include "base/spawn.h"
#include "launch/failure_report.h"
#include "launch/rank_log.h"

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Asks a stalled worker what its training thread is doing.
//
// The question is SIGUSR2 to the worker's main thread. The answer is a file of two lines, written atomically by the
// handler there (worker/crash_handler.h): section and name of base/current_op.h, each empty if there is none.
struct ProbeAnswer {
  std::string section, name;

  bool waits() const { return section.empty() && !name.empty(); }  // for the other ranks, or the GPU
};

// Sends the question. Returns true if there may be an answer: the process exists and handles the signal.
bool probe_worker(pid_t pid);

// Returns nothing if there is no answer.
std::optional<ProbeAnswer> read_probe_answer(const std::filesystem::path& file);

class WorkerHandle {
 public:
  using ShowLine = std::function<void(int rank, std::string_view line)>;  // for lines of its standard error

  WorkerHandle(int rank, const std::filesystem::path& log, ShowLine show, LogFile::Warn warn);
  ~WorkerHandle();  // kills and reaps a process that is still running
  WorkerHandle(const WorkerHandle&) = delete;
  WorkerHandle& operator=(const WorkerHandle&) = delete;

  // Throws std::system_error if the program cannot be run. Rank 0 keeps the caller's standard output. The log begins
  // with `what` the worker is, its process, and the cores that it is bound to. Its output and signals are set here.
  void start(const std::string& what, SpawnRequest worker);

  bool running() const { return pid_ > 0; }
  bool is(pid_t process) const { return pid_ == process; }
  void reap();            // records how it ended, if it has; never blocks
  void send(int signal);  // each once, and only to a running process: its id is its own until it is reaped
  void pause();           // stops it until unpause()
  void unpause();
  std::string abandon();  // gives up on one that SIGKILL does not end (it hangs in the kernel), and says so

  void watch(std::filesystem::path heartbeat, std::filesystem::path probe_answer) {
    heartbeat_ = std::move(heartbeat);
    probe_answer_ = std::move(probe_answer);
  }
  // Returns how long a running worker that has finished starting has not moved. `awake_since` is when the launcher
  // itself was last unable to look.
  std::optional<Stall> stall(std::chrono::steady_clock::time_point awake_since) const;
  void note_stall(Stall still) { end_.stall = std::move(still); }
  bool probe_worker() const { return running() && ddprun::probe_worker(pid_); }
  std::optional<ProbeAnswer> probe_answer() const { return read_probe_answer(probe_answer_); }

  std::vector<int> fds() const;  // to poll; at most two
  void drain();                  // takes a bounded amount of what its pipes hold
  void log_failure(const std::string& message);
  void finish_output();  // call after its end: takes the rest, then closes

  int rank() const { return end_.rank; }
  bool failed() const;
  bool preempted() const { return !running() && end_.signal == 0 && end_.exit_code == kExitPreempted; }
  WorkerEnd end() const;

 private:
  struct Stream {
    UniqueFd fd;
    LineCutter lines;
  };
  size_t drain(Stream& stream, const LineCutter::Take& take);
  size_t drain_once();
  void take_error_line(std::string_view line);
  void note_end(int status);
  void note_end_undone();
  void note_last_beat();

  ShowLine show_;
  LogFile log_;
  LastLines last_lines_;
  Stream out_, err_;
  std::filesystem::path heartbeat_, probe_answer_;
  pid_t pid_ = -1;
  bool sent_term_ = false, sent_kill_ = false;
  WorkerEnd end_;
};

}  // namespace ddprun

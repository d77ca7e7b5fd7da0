// SPDX-License-Identifier: MIT
#include "launch/launch_fixture.h"

#include "base/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <stdexcept>

namespace ddprun {
namespace fs = std::filesystem;

FakeLauncher::FakeLauncher() {
  fs::create_directories(logs());
  for (const auto& fifo : {roll(), folder_ / "gate"}) {
    if (::mkfifo(fifo.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + fifo.string());
  }
}

FakeLauncher::~FakeLauncher() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait_for(pid_);
}

std::map<int, pid_t> FakeLauncher::start(const LauncherOptions& options, const Script& script) {
  SpawnRequest request;
  request.command = {FAKE_LAUNCHER, run_dir(), std::to_string(options.workers), std::to_string(options.grace_seconds),
                     options.program};
  bool holds = false;
  for (const auto& word : script) {
    const bool is_hold = word.ends_with("hold="), is_await = word.ends_with("await=");
    request.command.push_back(word + (is_hold ? roll().string() : is_await ? (folder_ / "gate").string() : ""));
    holds = holds || is_hold;
  }
  request.environment = options.environment;  // the first of a name counts
  request.environment.push_back("TMPDIR=" + folder().string());
  std::ranges::copy(own_environment(), std::back_inserter(request.environment));
  const UniqueFd out(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const UniqueFd err(::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  request.stdout_fd = out.get();
  request.stderr_fd = err.get();
  pid_ = spawn(request);
  return holds ? call(options.workers) : std::map<int, pid_t>();
}

std::map<int, pid_t> FakeLauncher::call(int workers) {
  roll_ = UniqueFd(::open(roll().c_str(), O_RDONLY | O_CLOEXEC));  // blocks until the first opens it too
  std::string text;
  while (std::ranges::count(text, '\n') < workers) {
    char byte = 0;
    const ssize_t got = ::read(roll_.get(), &byte, 1);
    if (got == 0) throw std::runtime_error("the workers died before they reported: " + text);
    if (got == 1) text += byte;
  }
  std::map<int, pid_t> pids;
  std::istringstream stream(text);
  int rank = 0;
  pid_t pid = 0;
  while (stream >> rank >> pid) pids[rank] = pid;
  return pids;
}

void FakeLauncher::wait_until_all_are_dead() {
  char byte = 0;
  while (::read(roll_.get(), &byte, 1) != 0) {
  }
}

// For reading too, so that it does not wait for a reader; it stays open for those who come later.
void FakeLauncher::open_gate() { gate_ = UniqueFd(::open((folder_ / "gate").c_str(), O_RDWR | O_CLOEXEC)); }

LauncherEnd FakeLauncher::wait() {
  const int code = wait_for(std::exchange(pid_, -1));
  return {code, read_bytes(folder_ / "out"), read_bytes(folder_ / "err")};
}

LauncherEnd FakeLauncher::run(const LauncherOptions& options, const Script& script) {
  start(options, script);
  return wait();
}

LauncherEnd FakeLauncher::interrupt_until_end() {
  siginfo_t info = {};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
    send(SIGINT);
    ::poll(nullptr, 0, 20);
  }
  return wait();
}

void FakeLauncher::send(int signal) const { ::kill(pid_, signal); }

void FakeLauncher::wait_for_err(const std::string& text) const {
  while (read_bytes(folder_ / "err").find(text) == std::string::npos) ::poll(nullptr, 0, 5);
}

std::string FakeLauncher::log(int rank) const {
  std::istringstream lines(read_bytes(logs() / ("rank_" + std::to_string(rank) + ".log")));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const auto of_launcher = line.find("  attempt ") == std::string_view("2026-11-24T01:22:39+0000").size();
    if (!of_launcher) text += line + (lines.eof() ? "" : "\n");
  }
  return text;
}

}  // namespace ddprun

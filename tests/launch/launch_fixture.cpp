// SPDX-License-Identifier: MIT
#include "launch/launch_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ddprun {
namespace fs = std::filesystem;

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

namespace {
std::string make_fifo(const fs::path& fifo) {
  if (::mkfifo(fifo.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + fifo.string());
  return fifo;
}
}  // namespace

Roll::Roll(const fs::path& fifo) : path_(make_fifo(fifo)) {}

std::map<int, pid_t> Roll::call(int workers) {
  fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));  // blocks until the first opens it too
  std::string text;
  for (int lines = 0; lines < workers;) {
    char byte = 0;
    const ssize_t got = ::read(fd_.get(), &byte, 1);
    if (got == 0) throw std::runtime_error("the workers died before they reported: " + text);
    if (got == 1) text += byte;
    if (got == 1 && byte == '\n') ++lines;
  }
  std::map<int, pid_t> pids;
  std::istringstream stream(text);
  int rank = 0;
  pid_t pid = 0;
  while (stream >> rank >> pid) pids[rank] = pid;
  return pids;
}

void Roll::wait_until_all_are_dead() {
  char byte = 0;
  while (::read(fd_.get(), &byte, 1) != 0) {
  }
}

Gate::Gate(const fs::path& fifo) : path_(make_fifo(fifo)) {}

// For reading too, so that it does not wait for a reader; it stays open for those who come later.
void Gate::open() { fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CLOEXEC)); }

FakeLauncher::FakeLauncher() {
  std::string pattern = (fs::temp_directory_path() / "launcher_test-XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
  fs::create_directories(logs());
}

FakeLauncher::~FakeLauncher() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  fs::remove_all(folder_);
}

void FakeLauncher::start(const LauncherOptions& options, const std::vector<std::string>& script) {
  SpawnRequest request;
  request.command = {FAKE_LAUNCHER, (folder_ / "run").string(), std::to_string(options.workers),
                     std::to_string(options.grace_seconds), options.program.empty() ? FAKE_WORKER : options.program};
  request.command.insert(request.command.end(), script.begin(), script.end());
  request.environment = options.environment;  // the first of a name counts
  request.environment.push_back("TMPDIR=" + folder_.string());
  for (char** entry = environ; *entry != nullptr; ++entry) request.environment.emplace_back(*entry);
  const UniqueFd out(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const UniqueFd err(::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  request.stdout_fd = out.get();
  request.stderr_fd = err.get();
  pid_ = spawn(request);
}

LauncherEnd FakeLauncher::wait() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(folder_ / "out"),
          read_text(folder_ / "err")};
}

LauncherEnd FakeLauncher::run(const LauncherOptions& options, const std::vector<std::string>& script) {
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
  while (read_text(folder_ / "err").find(text) == std::string::npos) ::poll(nullptr, 0, 5);
}

std::string FakeLauncher::log(int rank) const {
  std::istringstream lines(read_text(logs() / ("rank_" + std::to_string(rank) + ".log")));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const auto of_launcher = line.find("  attempt ") == std::string_view("2026-11-24T01:22:39+0000").size();
    if (!of_launcher) text += line + (lines.eof() ? "" : "\n");
  }
  return text;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "base/spawn.h"

#include "base/cores.h"
#include "base/fork_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace ddprun {
namespace {

constexpr int kExecFailed = 127;

[[noreturn]] void fail_call(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

UniqueFd above_stdio(UniqueFd fd) {
  if (fd.get() > STDERR_FILENO) return fd;
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!moved.open()) fail_call("cannot duplicate a pipe");
  return moved;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs, prepared before the fork because it must not allocate.
struct ChildPlan {
  char* const* argv;
  char* const* environment;
  int null_fd, stdout_fd, stderr_fd, error_fd;
  pid_t parent;
  sigset_t blocked;
  const std::vector<cpu_set_t>& cores;  // none: the caller's
};

void reset_signals(const sigset_t& blocked) {
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGHUP || hangup.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
  action.sa_handler = SIG_IGN;  // a background group can then write to the terminal under `stty tostop`
  ::sigaction(SIGTTOU, &action, nullptr);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

// Makes only async-signal-safe calls: other threads of the caller may have held locks.
[[noreturn]] void become_worker(const ChildPlan& plan) {
  bool ready = ::setpgid(0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  if (::getppid() != plan.parent) ::_exit(kExecFailed);  // it died before the line above, so no signal will come
  ready = ready && ::dup2(plan.null_fd, STDIN_FILENO) >= 0;
  if (plan.stdout_fd >= 0) ready = ready && ::dup2(plan.stdout_fd, STDOUT_FILENO) >= 0;
  if (plan.stderr_fd >= 0) ready = ready && ::dup2(plan.stderr_fd, STDERR_FILENO) >= 0;
  if (!plan.cores.empty()) ::sched_setaffinity(0, plan.cores.size() * sizeof(cpu_set_t), plan.cores.data());
  if (ready) {
    ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);  // covers what the launcher's libraries have opened
    reset_signals(plan.blocked);
    ::execve(plan.argv[0], plan.argv, plan.environment);
  }
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(plan.error_fd, &error, sizeof error);
  ::_exit(kExecFailed);
}

// Returns the child's errno, or 0 once exec has closed the pipe.
int wait_for_exec(int error_fd) {
  int error = 0;
  for (;;) {
    const ssize_t got = ::read(error_fd, &error, sizeof error);
    if (got >= 0) return got == sizeof error ? error : 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Pipe make_pipe(ReadEnd read_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail_call("cannot make a pipe");
  UniqueFd read(ends[0]), write(ends[1]);
  Pipe pipe{above_stdio(std::move(read)), above_stdio(std::move(write))};
  const int flags = read_end == ReadEnd::kNonBlocking ? O_NONBLOCK : 0;
  if (::fcntl(pipe.read.get(), F_SETFL, flags) != 0) fail_call("cannot set up a pipe");
  return pipe;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

pid_t spawn(const SpawnRequest& request) {
  if (const auto forked = fork_from_server(request)) return *forked;
  const auto argv = pointers(request.command);
  const auto environment = pointers(request.environment);
  const UniqueFd null = above_stdio(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  if (!null.open()) fail_call("/dev/null");
  Pipe error_pipe = make_pipe(ReadEnd::kBlocking);
  const auto cores = mask_of_cores(request.cores);

  const ChildPlan plan{.argv = argv.data(),
                       .environment = environment.data(),
                       .null_fd = null.get(),
                       .stdout_fd = request.stdout_fd,
                       .stderr_fd = request.stderr_fd,
                       .error_fd = error_pipe.write.get(),
                       .parent = ::getpid(),
                       .blocked = signal_set(request.blocked),
                       .cores = cores};
  const pid_t pid = ::fork();
  if (pid < 0) fail_call("cannot start a process");
  if (pid == 0) become_worker(plan);

  error_pipe.write.reset();
  if (const int error = wait_for_exec(error_pipe.read.get())) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    throw std::system_error(error, std::generic_category(), request.command.at(0));
  }
  return pid;
}

}  // namespace ddprun

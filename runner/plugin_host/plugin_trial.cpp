// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_trial.h"

#include "base/signal_set.h"
#include "base/spawn.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

void send_line(int fd, std::string line) {
  for (size_t at; (at = line.find('\n')) != std::string::npos;) line.replace(at, 1, "; ");
  line += '\n';
  if (::write(fd, line.data(), line.size()) < 0) std::abort();
}

// Reads until the other end is closed; returns false if that takes too long.
bool read_all(int fd, Clock::time_point deadline, std::string& text) {
  std::array<char, 4096> buffer;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    const auto bytes = ::read(fd, buffer.data(), buffer.size());
    if (bytes == 0) return true;
    if (bytes > 0) text.append(buffer.data(), static_cast<size_t>(bytes));
  }
}

std::string end_text(int status) {
  if (WIFSIGNALED(status)) return signal_name(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  return code == 0 ? "" : "exit code " + std::to_string(code);
}

}  // namespace

TrialEnd in_child(const std::function<void(const std::function<void(const std::string&)>& say)>& work,
                  std::chrono::milliseconds patience) {
  auto pipe = make_pipe();
  std::fflush(nullptr);  // otherwise the child would write it again
  const auto child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "no process can be started");
  if (child == 0) {
    pipe.read.reset();
    work([fd = pipe.write.get()](const std::string& line) { send_line(fd, line); });
    std::exit(0);
  }
  pipe.write.reset();
  TrialEnd end;
  std::string text;
  const bool ended = read_all(pipe.read.get(), Clock::now() + patience, text);
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  end.problem = ended ? end_text(status) : "it hangs";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) end.lines.push_back(line);
  return end;
}

}  // namespace ddprun

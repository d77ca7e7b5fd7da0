// SPDX-License-Identifier: MIT
#include "agent/sidecars.h"

#include "base/log.h"
#include "base/program.h"
#include "base/spawn.h"
#include "launch/signal_inbox.h"
#include "submit/submission.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::seconds;

constexpr double kCheckSeconds = 60;
constexpr Seconds kLongestPause{60};  // between its death and its next start
constexpr Seconds kGrace{3};          // for one that is asked to end
constexpr int kMostStartsAtEnd = 3;

std::vector<std::string> with(std::vector<std::string> command, std::initializer_list<std::string> more) {
  command.insert(command.end(), more);
  return command;
}

std::string problem_of(const Sidecar& sidecar) try {
  const auto end = run_program(with(sidecar.command, {"--check"}), {.seconds = kCheckSeconds});
  if (end.cut) return log::text(sidecar.command[0], " does not answer within ", kCheckSeconds, " s");
  return end.exit_code == 0 ? "" : last_line(end.output);
} catch (const std::exception& error) {
  return error.what();
}

// Returns a file that its standard error goes to.
UniqueFd open_log(const fs::path& file) {
  UniqueFd log(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!log.open()) throw std::system_error(errno, std::generic_category(), file.string());
  return log;
}

}  // namespace

// What the thread of one sidecar does and knows.
struct Sidecars::Watch {
  Sidecar sidecar;
  fs::path run_dir;
  std::mutex mutex;
  std::condition_variable changed;
  UniqueFd input;          // the sidecar's; closed at the run's end
  pid_t pid = 0;           // 0: it does not run
  bool run_ended = false;  // no more rows will come
  bool given_up = false;   // nobody waits for it any more
  bool sent = false;       // all of the run
  std::string problem;     // the last that it has reported

  // Runs it until it has sent everything or gives up.
  void work() try {
    make_folder(run_dir / "logs");
    for (int deaths = 0, at_end = 0;; ++deaths) {
      const bool gave_up = run_once();
      std::unique_lock lock(mutex);
      at_end += run_ended ? 1 : 0;
      if (gave_up || sent || given_up || at_end == kMostStartsAtEnd) return;
      const auto death = "it was killed, or has ended by itself; logs/" + sidecar.name + ".log may say why";
      if (problem.empty()) problem = death;
      if (deaths == 0) log::warn(sidecar.name + ": " + death + "; it is started again");
      const Seconds pause = std::min(Seconds(1 << std::min(deaths, 6)), kLongestPause);
      changed.wait_for(lock, pause, [&] { return run_ended || given_up; });
      if (given_up) return;
    }
  } catch (const std::exception& error) {
    log::warn(sidecar.name + ": " + error.what());
    const std::scoped_lock lock(mutex);
    problem = error.what();
  }

  // Returns whether it has given up.
  bool run_once() {
    auto to_it = make_pipe(ReadEnd::kBlocking), from_it = make_pipe();
    const auto errors = open_log(run_dir / "logs" / (sidecar.name + ".log"));
    // In a session of its own: no signal of a terminal or to a group ends it before the run has.
    const auto child = start_program(with(sidecar.command, {"--beside", run_dir.string()}),
                                     {to_it.read.get(), from_it.write.get(), errors.get()}, ProgramGroup::kOwnSession);
    to_it.read.reset();
    from_it.write.reset();
    {
      const std::scoped_lock lock(mutex);
      pid = child;
      if (!run_ended) input = std::move(to_it.write);
      if (given_up) ::kill(child, SIGTERM);
    }
    to_it.write.reset();  // where the run has ended meanwhile
    const bool gave_up = hear(from_it.read.get());
    {
      const std::scoped_lock lock(mutex);
      pid = 0;
    }
    if (!wait_until(child, Clock::now() + kGrace)) ::kill(child, SIGKILL);  // the launcher may have reaped it, too
    wait_until(child, Clock::now() + kGrace);
    return gave_up;
  }

  // Passes on its lines until it ends, has sent everything, or gives up. Returns whether it has given up.
  bool hear(int fd) {
    std::string text;
    char buffer[4096];
    for (;;) {
      pollfd polled{fd, POLLIN, 0};
      ::poll(&polled, 1, -1);
      const auto got = ::read(fd, buffer, sizeof buffer);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return false;
      text.append(buffer, static_cast<size_t>(got));
      for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
        const auto kind = take_line(text.substr(0, end));
        if (kind == "done" || kind == "failed") return kind == "failed";
        text.erase(0, end + 1);
      }
    }
  }

  // Returns the line's first word.
  std::string take_line(const std::string& line) {
    const auto space = line.find(' ');
    const auto kind = line.substr(0, space), text = space == line.npos ? "" : log::shown(line.substr(space + 1));
    const std::scoped_lock lock(mutex);
    if (kind == "done") sent = true;
    if (kind == "info") log::info(sidecar.name + ": " + text);
    if (kind == "warning" || kind == "failed") log::warn(sidecar.name + ": " + (problem = text));
    return kind;
  }

  void end_run() {
    const std::scoped_lock lock(mutex);
    run_ended = true;
    input.reset();
    changed.notify_all();
  }

  void end_it(int signal) {
    const std::scoped_lock lock(mutex);
    given_up = true;
    if (pid > 0) ::kill(pid, signal);
    changed.notify_all();
  }
};

void require_sidecars(const std::vector<PlacedSidecar>& sidecars) {
  std::string problems;
  for (const auto& [sidecar, place] : sidecars) {
    const auto problem = problem_of(sidecar);
    if (!problem.empty()) problems += (problems.empty() ? "" : "\n") + place + ": " + problem;
  }
  if (!problems.empty()) throw UserError(problems);
}

struct Sidecars::Running {
  std::shared_ptr<Watch> watch;  // outlives this object if its thread does
  std::future<void> done;
};

Sidecars::Sidecars() = default;

Sidecars::~Sidecars() {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const auto deadline = Clock::now() + kGrace;
    for (const auto& one : running_) one->watch->end_it(signal);
    const auto ends = [&](const auto& one) { return one->done.wait_until(deadline) == std::future_status::ready; };
    if (std::ranges::all_of(running_, ends)) return;
  }
}

void Sidecars::start(const std::vector<PlacedSidecar>& sidecars, const fs::path& run_dir) {
  if (!running_.empty()) return;
  for (const auto& one : sidecars) {
    auto watch = std::make_shared<Watch>();
    watch->sidecar = one.sidecar;
    watch->run_dir = run_dir;
    running_.push_back(std::make_unique<Running>(watch, aside([watch] { watch->work(); })));
  }
}

std::string Sidecars::names() const {
  std::string names;
  for (const auto& one : running_) names += (names.empty() ? "" : ", ") + one->watch->sidecar.name;
  return names;
}

std::vector<Unsent> Sidecars::finish(Seconds patience) {
  const auto deadline = Clock::now() + patience;
  for (const auto& one : running_) one->watch->end_run();
  std::vector<Unsent> unsent;
  for (const auto& one : running_) {
    one->done.wait_until(deadline);
    auto& watch = *one->watch;
    const std::scoped_lock lock(watch.mutex);
    if (watch.sent) continue;
    unsent.push_back(
        {.name = watch.sidecar.name,
         .problem = watch.problem.empty() ? log::text("not done within ", patience.count(), " s") : watch.problem,
         .command = shell_words(with(watch.sidecar.command, {watch.run_dir.string()}))});
  }
  return unsent;
}

}  // namespace ddprun

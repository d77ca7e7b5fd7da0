// SPDX-License-Identifier: MIT
// A worker without training. Each argument is "<rank or *>:<verb>=<value>" and is done, in order, by the ranks that it
// names.
#include "launch/heartbeat.h"
#include "launch/worker_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

volatile std::sig_atomic_t asked_to_stop = 0;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

void print(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t got = ::write(fd, text.data() + done, text.size() - done);
    if (got < 0) std::_Exit(99);
    done += static_cast<size_t>(got);
  }
}

// "kind|message|phase|step"
void fail(const ddprun::WorkerPlace& place, const std::string& value) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = value.find('|', begin);
    parts.push_back(value.substr(begin, end - begin));
  }
  ddprun::write_failure(place.failure, {place.rank, now(), ddprun::enum_of<ddprun::FailureKind>(parts.at(0)).value(),
                                        parts.at(1), parts.at(2), std::stol(parts.at(3))});
}

// Shows the reader of a FIFO who we are, and keeps it open: it reads the end of file when the last of us is dead.
void hold(const ddprun::WorkerPlace& place, const std::string& fifo) {
  const int fd = ::open(fifo.c_str(), O_WRONLY);
  print(fd, std::to_string(place.rank) + " " + std::to_string(::getpid()) + "\n");
}

// Blocks until somebody opens the FIFO for writing.
void await(const std::string& fifo) { ::close(::open(fifo.c_str(), O_RDONLY)); }

void wait_for_sigterm() {
  sigset_t term, old;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, &old);
  while (!asked_to_stop) ::sigsuspend(&old);
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
}

// "activity|step", the activity by its number.
void beat(const ddprun::WorkerPlace& place, const std::string& value) {
  ddprun::HeartbeatWriter(place.heartbeat)
      .beat(static_cast<ddprun::Activity>(std::stoi(value)), std::stoll(value.substr(value.find('|') + 1)));
}

void babble(int fd, int lines) {
  for (int line = 0; line < lines; ++line) print(fd, "line " + std::to_string(line) + "\n");
}

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return name + "=" + (value ? value : "(unset)") + "\n";
}

std::string attempt_of(const ddprun::WorkerPlace& place) {
  std::ostringstream text;
  text.precision(12);
  text << "attempt " << place.attempt.number << ", " << place.started_at << ", " << place.attempt.run_dir.string()
       << "\n";
  return text.str();
}

void act(const ddprun::WorkerPlace& place, const std::string& verb, const std::string& value) {
  const std::map<std::string, std::function<void()>> verbs = {
      {"exit", [&] { std::_Exit(std::stoi(value)); }},
      {"done", [&] { std::_Exit(ddprun::kWorkerDone); }},
      {"signal", [&] { ::signal(std::stoi(value), SIG_DFL), ::raise(std::stoi(value)); }},
      {"out", [&] { print(1, value + "\n"); }},
      {"err", [&] { print(2, value + "\n"); }},
      {"raw", [&] { print(2, value); }},
      {"env", [&] { print(2, variable(value)); }},
      {"store", [&] { print(2, place.store + "\n"); }},
      {"attempt", [&] { print(2, attempt_of(place)); }},
      {"fail", [&] { fail(place, value); }},
      {"beat", [&] { beat(place, value); }},
      {"hold", [&] { hold(place, value); }},
      {"await", [&] { await(value); }},
      {"ignore", [&] { ::signal(std::stoi(value), SIG_IGN); }},
      {"catch", [&] { ::signal(std::stoi(value), [](int) { asked_to_stop = 1; }); }},
      {"wait", [&] { wait_for_sigterm(); }},
      {"sleep",
       [&] {
         for (;;) ::pause();
       }},
      {"child",
       [&] {
         while (::fork() == 0) ::pause();
       }},
      {"daemon",
       [&] {
         while (::fork() == 0) {
           ::setsid();
           ::pause();
         }
       }},
      {"babble", [&] { babble(2, std::stoi(value)); }},
      {"babble_out", [&] { babble(1, std::stoi(value)); }},
  };
  verbs.at(verb)();
}

}  // namespace

int main(int argc, char** argv) {
  ddprun::unblock_stop_signals();
  const auto place = ddprun::read_place();
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto colon = text.find(':'), equals = text.find('=');
    const std::string who = text.substr(0, colon);
    if (who == "*" || who == std::to_string(place.rank)) {
      act(place, text.substr(colon + 1, equals - colon - 1), text.substr(equals + 1));
    }
  }
  return ddprun::kWorkerDone;
}

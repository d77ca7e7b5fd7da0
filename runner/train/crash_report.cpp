// SPDX-License-Identifier: MIT
// All that a handler calls is async-signal-safe, or was called once before (backtrace loads its library at the first call).
#include "train/crash_report.h"

#include "plugin_host/plugin_call.h"

#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string>

namespace ddprun {
namespace {

constexpr int kFrames = 8;          // shown: the launcher's report has not many lines more
constexpr int kHandlersFrames = 2;  // the handler's own, and the kernel's way to it
constexpr size_t kStackBytes = 64 << 10;

// Set before the handlers, and never again.
std::string failure_file, failure_begin, name;

void write_all(int fd, const char* text) { [[maybe_unused]] const auto written = ::write(fd, text, std::strlen(text)); }

// The same as write_failure, of constant parts.
void tell_launcher(const Hook& hook) {
  const int fd = ::open(failure_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  for (const char* part : {failure_begin.c_str(), hook.section, R"(", "message": "in )", hook.name, "():\"}\n"})
    write_all(fd, part);
  ::close(fd);
}

void tell_people(int signal, const Hook* hook) {
  const char* word = ::sigabbrev_np(signal);
  for (const char* part : {name.c_str(), "SIG", word ? word : "?", hook ? " in " : "", hook ? hook->name : "",
                           hook ? "() of " : "", hook ? hook->section : "", "; the calls that led there:\n"})
    write_all(STDERR_FILENO, part);
  std::array<void*, kFrames + kHandlersFrames> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  if (count > kHandlersFrames)
    ::backtrace_symbols_fd(frames.data() + kHandlersFrames, count - kHandlersFrames, STDERR_FILENO);
}

void report_crash(int signal) {
  static std::atomic_flag told;
  if (!told.test_and_set()) {
    const auto* hook = current_hook();
    if (hook != nullptr) tell_launcher(*hook);
    tell_people(signal, hook);
    std::signal(signal, SIG_DFL);
    ::raise(signal);  // takes effect when the handler returns
  } else {
    for (;;) ::pause();  // another thread tells of its own, and ends the process
  }
}

}  // namespace

void report_crashes(const std::string& who, const std::filesystem::path& failure, int rank) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  failure_file = failure.string();
  failure_begin =
      R"({"rank": )" + std::to_string(rank) + R"(, "time": 0, "kind": "signal", "phase": "", "step": -1, "section": ")";
  name = who;
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);
  static std::array<char, kStackBytes> stack;  // of the main thread's handler: its own may be what has run out
  const stack_t apart{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&apart, nullptr);
  struct sigaction action {};
  action.sa_handler = report_crash;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &action, nullptr);
#endif
}

}  // namespace ddprun

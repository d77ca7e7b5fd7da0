// SPDX-License-Identifier: MIT
// Everything that a handler calls is async-signal-safe, or was called once before (backtrace loads its library at the
// first call).
#include "worker/crash_handler.h"

#include "base/call_lines.h"
#include "base/current_op.h"
#include "base/spawn.h"
#include "launch/worker_process.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <initializer_list>
#include <string_view>

namespace ddprun {
namespace {

constexpr int kFrames = 16;         // about as many lines as the launcher's report shows
constexpr int kHandlersFrames = 2;  // the handler's own, and the kernel's trampoline
constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kReportSeconds = 10;  // for a crash's report

std::atomic<int> asked_event = -1;

// Set before the handlers are installed, and never again.
std::string prefix, failure_file, failure_begin, failure_begin_internal, failure_begin_lost, answer_file, answer_draft;
std::terminate_handler terminate_as_before = nullptr;
bool refuses_exit = false, exit_ends_nothing = false;
pid_t refuser = 0;  // what a plugin forks may end as it likes

void write_all(int fd, std::initializer_list<const char*> parts) {
  for (const char* part : parts) [[maybe_unused]]
    const auto written = ::write(fd, part, std::strlen(part));
}

bool write_file(const std::string& file, std::initializer_list<const char*> parts) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  write_all(fd, parts);
  ::close(fd);
  return true;
}

// Writes "in step() of model".
void print_doing() {
  const auto* doing = current_op;
  if (doing == nullptr) return;
  write_all(STDERR_FILENO, {" in ", doing->name, doing->section ? "() of " : "", doing->section ? doing->section : ""});
}

// Returns whether this is one of the threads in which c10d watches over NCCL. They end the process where a collective
// has waited too long for another rank, or has failed, and so show that rank's fault.
bool watches_nccl() {
  std::array<char, 16> name{};  // as much as the kernel keeps
  ::prctl(PR_GET_NAME, name.data());
  constexpr std::string_view kWatchers = "pt_nccl_";
  return kWatchers.compare(0, kWatchers.size(), name.data(), kWatchers.size()) == 0;
}

std::string watchers_error = "NCCL's watchdog ended the process, for another rank or for an error of NCCL";
bool watchers_error_is_own = false;  // of this rank's GPU, and not of another rank

// Keeps what c10d's watchers end the process for, "[PG ID 0 ...] Process group watchdog thread terminated with
// exception: CUDA error: unspecified launch failure", as text for JSON; then continues as before. They look after this
// rank's GPU, too: what CUDA says is of that one.
[[noreturn]] void end_by_exception() {
  if (const auto error = std::current_exception(); error && watches_nccl()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& known) {
      std::string_view text = known.what();
      constexpr std::string_view kBefore = "terminated with exception: ";
      if (const auto at = text.find(kBefore); at != text.npos) text.remove_prefix(at + kBefore.size());
      watchers_error_is_own = text.starts_with("CUDA ");
      watchers_error = watchers_error_is_own ? "NCCL's watchdog ended the process: " : watchers_error + ": ";
      watchers_error += text.substr(0, text.find('\n'));
      std::ranges::replace_if(
          watchers_error, [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; }, '\'');
    } catch (...) {
    }
  }
  terminate_as_before();
  std::abort();
}

// Writes the call stack. It is inlined, since the frames to skip are the caller's own.
[[gnu::always_inline]] inline void print_calls() {
  write_all(STDERR_FILENO, {kCallsFollow.data(), "\n"});
  std::array<void*, kFrames + kHandlersFrames> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  if (count > kHandlersFrames)
    ::backtrace_symbols_fd(frames.data() + kHandlersFrames, count - kHandlersFrames, STDERR_FILENO);
}

// steady_seconds() as text, made with what a signal's handler may call.
class TimeText {
 public:
  TimeText() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    constexpr int kDigits = 9;
    char* at = std::to_chars(text_.data(), text_.data() + text_.size() / 2, now.tv_sec).ptr;
    *at++ = '.';
    for (int digit = kDigits; digit > 0; --digit, now.tv_nsec /= 10)
      at[digit - 1] = static_cast<char>('0' + now.tv_nsec % 10);
  }
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 64> text_{};
};

// Writes the failure file, as write_failure does.
bool inform_launcher(const CurrentOp* doing, const std::string& begin, const char* what) {
  const bool of_plugin = doing != nullptr && doing->section != nullptr;
  return !failure_file.empty() &&
         write_file(failure_file, {begin.c_str(), of_plugin ? doing->section : "", R"(", "message": ")",
                                   of_plugin ? "in " : "", of_plugin ? doing->name : "", of_plugin ? "():" : "", what,
                                   R"(", "time": )", TimeText().c_str(), "}\n"});
}

[[noreturn]] void end_process(int code) {
  for (;;) ::syscall(SYS_exit_group, code);
}

bool in_hook() {
  const auto* doing = current_op;
  return doing != nullptr && doing->section != nullptr;
}

bool refuses() { return refuses_exit && ::getpid() == refuser; }

[[noreturn]] void end_as_failed(const char* what, const char* cause) {
  if (!inform_launcher(current_op, failure_begin_internal, cause)) {
    write_all(STDERR_FILENO, {prefix.c_str(), what});
    print_doing();
    write_all(STDERR_FILENO, {"\n"});
  }
  end_process(kExitFailed);
}

void refuse() {
  if (!refuses() || (!in_hook() && !exit_ends_nothing)) return;
  std::fflush(nullptr);
  end_as_failed("exit() was called", " exit() was called, before the work was done");
}

void refuse_at_once() {
  if (refuses() && in_hook()) end_as_failed("_exit() was called", " _exit() was called, before the work was done");
}

void unblock(int signal) {
  const auto signals = signal_set(std::array{signal});
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

volatile std::sig_atomic_t crashed_with = 0;

// Ends a report that waits for a lock which the crash holds.
void end_report(int) {
  std::signal(crashed_with, SIG_DFL);
  unblock(crashed_with);
  ::raise(crashed_with);
}

[[maybe_unused]] void report_crash(int signal) {  // a sanitizer has its own
  static std::atomic_flag begun;
  if (begun.test_and_set()) {
    for (;;) ::pause();  // another thread reports its own crash and ends the process
  }
  crashed_with = signal;
  std::signal(SIGALRM, end_report);
  unblock(SIGALRM);
  ::alarm(kReportSeconds);
  const auto* doing = current_op;
  if (signal == SIGABRT && watches_nccl()) {
    inform_launcher(nullptr, watchers_error_is_own ? failure_begin_internal : failure_begin_lost,
                    watchers_error.c_str());
  } else if (doing != nullptr && doing->section != nullptr) {
    inform_launcher(doing, failure_begin, "");
  }
  const char* word = ::sigabbrev_np(signal);
  write_all(STDERR_FILENO, {prefix.c_str(), "SIG", word ? word : "?"});
  print_doing();
  print_calls();
  std::signal(signal, SIG_DFL);
  ::raise(signal);  // takes effect when the handler returns
}

// Handles SIGQUIT: a terminal's Ctrl-\ is for programs that respond to nothing else.
void report_quit(int signal) {
  write_all(STDERR_FILENO, {prefix.c_str(), "SIGQUIT: ends at once, and saves nothing\n"});
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void answer(int) {
  const int error = errno;
  const auto* doing = current_op;
  const char* section = doing && doing->section ? doing->section : "";
  write_file(answer_draft, {section, "\n", doing ? doing->name : "", "\n"});
  ::rename(answer_draft.c_str(), answer_file.c_str());
  if (doing == nullptr || doing->section != nullptr) {
    write_all(STDERR_FILENO, {prefix.c_str(), "stalled"});
    print_doing();
    print_calls();
  }
  if (const int event = asked_event.load(); event >= 0) {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event, &one, sizeof one);
  }
  errno = error;
}

// Calls backtrace once: its first call loads a library, which a handler may not.
void load_backtrace() {
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void install_crash_handler(const std::string& who, const std::filesystem::path& failure, int rank) {
  prefix = who;
  failure_file = failure.string();
  const auto begin = [rank](FailureKind kind) {
    return R"({"rank": )" + std::to_string(rank) + R"(, "kind": ")" + std::string(word_of(kind)) +
           R"(", "phase": "", "step": -1, "section": ")";
  };
  failure_begin = begin(FailureKind::kSignal);
  failure_begin_internal = begin(FailureKind::kInternal);
  failure_begin_lost = begin(FailureKind::kCommunication);
  load_backtrace();
  terminate_as_before = std::set_terminate(end_by_exception);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  static std::array<char, kStackBytes> stack;  // of the main thread's handler, since a full stack may be the crash
  const stack_t apart{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&apart, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) handle(signal, report_crash, SA_ONSTACK);
  handle(SIGQUIT, report_quit, 0);
#endif
}

void refuse_exit(bool anywhere) {
  refuses_exit = true;
  refuser = ::getpid();
  exit_ends_nothing = anywhere;
  std::at_quick_exit(refuse);
}

void ignore_throws_of_the_end(int code) {
  static int done = 0;
  done = code;
  std::fflush(nullptr);
  std::set_terminate([] { end_process(done); });
}

void answer_launcher(const std::filesystem::path& file) {
  if (file.empty()) return;
  load_backtrace();
  answer_file = file.string();
  answer_draft = answer_file + ".draft";
  handle(SIGUSR2, answer, SA_RESTART);
}

void wake_when_asked(int event) { asked_event = event; }

}  // namespace ddprun

// Replaces libc's exit for the program and all its libraries. A handler (atexit) would come too late: those that
// libraries registered after it run first, and destroy what other threads still use.
extern "C" [[gnu::visibility("default")]] void exit(int code) noexcept {
  ddprun::refuse();
  reinterpret_cast<decltype(&::exit)>(::dlsym(RTLD_NEXT, "exit"))(code);
  ddprun::end_process(code);
}

extern "C" [[gnu::visibility("default")]] void _exit(int code) {
  ddprun::refuse_at_once();
  ddprun::end_process(code);
}

extern "C" [[gnu::visibility("default")]] void _Exit(int code) noexcept { ::_exit(code); }

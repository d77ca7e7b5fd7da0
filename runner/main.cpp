// SPDX-License-Identifier: MIT
// bin/ddprun: the first moments of the program. It runs what needs no LibTorch, or sets what libraries read when they
// are loaded, loads LibTorch with lib/ddprun/program.so, and continues there.
#include "base/fork_server.h"
#include "base/log.h"
#include "base/openmp_threads.h"
#include "beginning.h"
#include "command_line/arguments.h"
#include "command_line/output.h"
#include "command_line/plain_commands.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <string_view>

namespace {

constexpr int kNotLoaded = 127;  // as the dynamic linker ends a program whose libraries it cannot load

ddprun::Beginning beginning;

// Blocks them from the first moment on: the kernel discards what the first process of a container does not handle.
[[maybe_unused]] void hold_early_signals() noexcept {
  sigset_t held;
  ::sigemptyset(&held);
  for (const int signal : ddprun::kStopSignals) ::sigaddset(&held, signal);
  ::pthread_sigmask(SIG_BLOCK, &held, &beginning.mask);
}

// Ends a command in a folder that was deleted, where LibTorch's libraries would fail to start with words of their own.
[[maybe_unused]] void require_working_folder() noexcept {
  constexpr std::string_view kText = "ddprun: error: the current folder was deleted; go to another one (cd)\n";
  std::array<char, PATH_MAX> path;
  if (::getcwd(path.data(), path.size()) != nullptr || errno != ENOENT) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(ddprun::kExitUsage);
}

// Looks for a command that needs no LibTorch, or a question for help, among the words.
bool may_be_plain(std::span<char* const> words) {
  static constexpr std::array<std::string_view, 3> kQuestions{"-h", "--help", "--version"};
  if (std::getenv(ddprun::kForkServerVariable) != nullptr) return false;
  if (words.size() < 2 || ddprun::is_plain_command(words[1])) return true;
  return std::ranges::any_of(words, [](std::string_view word) { return std::ranges::count(kQuestions, word) > 0; });
}

// Returns the exit code, or nothing if the command needs LibTorch.
std::optional<int> run_plainly(int argc, char** argv) try {
  if (!may_be_plain({argv, argv + argc})) return std::nullopt;
  ddprun::set_output();
  const auto arguments = ddprun::parse_arguments(argc, argv);
  if (!ddprun::is_plain_command(arguments.command)) return std::nullopt;
  ::pthread_sigmask(SIG_SETMASK, &beginning.mask, nullptr);
  const auto code = ddprun::run_plain_command(arguments);
  return code ? std::optional(ddprun::with_whole_answer(*code)) : std::nullopt;
} catch (const ddprun::Exit& exit) {
  return ddprun::with_whole_answer(exit.code);
} catch (const ddprun::UserError& error) {
  ddprun::log::error(error.what());
  return ddprun::kExitUsage;
} catch (const std::exception& error) {
  ddprun::log::error(std::string("internal error: ") + error.what());
  return ddprun::kExitFailed;
}

// Functions of libc that program.so replaces for all libraries. The dynamic linker finds them in this program first.
template <class Function>
struct Replaced {
  const char* name;
  Function* own = nullptr;  // program.so's, once that is loaded

  Function* get() const { return own ? own : reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name)); }
  void find_in(void* program) { own = reinterpret_cast<Function*>(::dlsym(program, name)); }
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their own beginnings come first
// The dynamic linker calls it before the constructors of all libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*first_of_all)() noexcept = hold_early_signals;

[[gnu::section(".preinit_array"), gnu::used]] void (*second_of_all)() noexcept = require_working_folder;
#endif

Replaced<void(int)> replaced_exit{"exit"}, replaced_end{"_exit"};
Replaced<ddprun::CreateThread> replaced_create{"pthread_create"};

// Returns program.so, or null after it has said why it cannot be loaded.
void* load_program() {
  const auto prefix = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  beginning.set_spin = !ddprun::user_sets_spin();
  if (beginning.set_spin) ::setenv(ddprun::kSpinVariable, ddprun::kShortSpin, /*overwrite=*/0);
  void* program = ::dlopen((prefix / "lib/ddprun/program.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (program == nullptr) std::fprintf(stderr, "ddprun: error while loading shared libraries: %s\n", ::dlerror());
  return program;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void exit(int code) noexcept {
  replaced_exit.get()(code);
  for (;;) ::syscall(SYS_exit_group, code);
}

extern "C" [[gnu::visibility("default")]] void _exit(int code) {
  if (replaced_end.own) replaced_end.own(code);
  for (;;) ::syscall(SYS_exit_group, code);
}

extern "C" [[gnu::visibility("default")]] void _Exit(int code) noexcept { ::_exit(code); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                             void* (*routine)(void*), void* argument) noexcept {
  return replaced_create.get()(thread, attributes, routine, argument);
}
#endif

int main(int argc, char** argv) {
  if (const auto code = run_plainly(argc, argv)) {
    std::cout.flush();
    ::_exit(*code);
  }
  beginning.argc = argc, beginning.argv = argv;
  void* program = load_program();
  if (program == nullptr) return kNotLoaded;
  replaced_exit.find_in(program), replaced_end.find_in(program), replaced_create.find_in(program);
  auto* run = reinterpret_cast<ddprun::ProgramFunction*>(::dlsym(program, ddprun::kProgramFunction));
  ::_exit(run(beginning));
}

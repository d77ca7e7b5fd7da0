// SPDX-License-Identifier: MIT
// ddprun: the whole program. The launcher (any command but the last) composes the experiment and starts the workers;
// each worker is this program again, with the command `worker`.
#include "agent/early_signals.h"
#include "agent/error_file.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "worker/crash_handler.h"
#include "worker/worker.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string_view>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their own beginnings come first
// The dynamic linker calls it before the constructors of all libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*first_of_all)() noexcept = ddprun::hold_early_signals;

// `ddprun complete` is called at every press of Tab. The constructors of LibTorch take 0.15 s: before them it becomes a
// program that does without, which starts this one again where it needs plugins loaded.
void complete_at_once(int argc, char** argv, char** environment) noexcept {  // libc does not know it yet
  if (argc < 2 || std::strcmp(argv[1], "complete") != 0 ||
      (argc > 2 && (std::strcmp(argv[2], "--describe") == 0 || std::strcmp(argv[2], "--helps") == 0)))
    return;
  for (char** variable = environment; *variable; ++variable)
    if (std::strncmp(*variable, "DDPRUN_COMPLETE=", 16) == 0) return;
  char program[PATH_MAX] = "";
  if (::readlink("/proc/self/exe", program, sizeof program - 1) < 0) return;
  const std::string_view path(program);
  const auto folder = path.rfind('/', path.rfind('/') - 1);
  constexpr std::string_view kOther = "/libexec/ddprun-complete";
  if (folder == path.npos || folder + kOther.size() >= sizeof program) return;
  std::memcpy(program + folder, kOther.data(), kOther.size() + 1);
  ::execve(program, argv, environment);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*second_of_all)(int, char**, char**) noexcept = complete_at_once;
#endif

// Static objects are not destroyed, nor is NCCL's group (comm/communicator.cpp): a thread that a hanging logger has
// left behind, or a collective that a dead rank has left open, must not hold up the end, and LibTorch takes a tenth of
// a second for its tables. AddressSanitizer looks for leaks in exit(), which is not called.
[[noreturn]] void end(int code) {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_do_leak_check();
#endif
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

// A mistake in the command or the experiment is every rank's: of those that an engine has started on this machine the
// first tells it. torchrun shows the message of the rank that failed first, from a file.
int tell(const std::string& message, int exit_code) {
  const bool told = ddprun::tell_torchrun(message) || exit_code == ddprun::kExitUsage;
  if (!told || ddprun::is_first_of_its_node()) ddprun::log::error(message);
  return exit_code;
}

// What is written to a terminal is shown there and not obeyed: names in a run's folder may be anybody's.
class ShownText final : public std::stringbuf {
  int sync() override {
    const auto text = ddprun::log::shown(str());
    str("");
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : -1;
  }
};

// A full disk may have cut off what a script then takes for the whole answer. The lines of a run are none: they are in
// its files too.
int with_whole_answer(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  ddprun::log::error("cannot write the whole answer to standard output; is the disk full?");
  return code == ddprun::kExitDone ? ddprun::kExitFailed : code;
}

int run(int argc, char** argv) try {
  const auto arguments = ddprun::parse_arguments(argc, argv);
  if (arguments.command == "worker") return ddprun::run_worker();
  if (arguments.command == "complete") return ddprun::complete_line({argv + 2, argv + argc});
  ddprun::install_crash_handler("ddprun: ");
  ddprun::refuse_exit(/*anywhere=*/false);
  const auto code = ddprun::run_command(arguments);
  return ddprun::starts_training(arguments) ? code : with_whole_answer(code);
} catch (const ddprun::Exit& exit) {
  return with_whole_answer(exit.code);
} catch (const ddprun::UserError& error) {  // the experiment, a plugin or the data are wrong: the text says how
  return tell(error.what(), ddprun::kExitUsage);
} catch (const std::exception& error) {  // we are wrong, or the machine is
  return tell(std::string("internal error: ") + error.what(), ddprun::kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  ShownText shown;
  if (::isatty(STDOUT_FILENO)) {
    std::cout.rdbuf(&shown);
    std::cout << std::unitbuf;
  }
  end(run(argc, argv));
}

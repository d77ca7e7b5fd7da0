// SPDX-License-Identifier: MIT
// ddprun: the whole program. The launcher (any command but the last) composes the experiment and starts the workers;
// each worker is this program again, with the command `worker`.
#include "agent/early_signals.h"
#include "agent/error_file.h"
#include "agent/run_source.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "worker/crash_handler.h"
#include "worker/worker.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string_view>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace {

// Ends a command in a folder that was deleted, where LibTorch's libraries would fail to start with words of their own.
[[maybe_unused]] void require_working_folder() noexcept {
  constexpr std::string_view kText = "ddprun: error: the current folder was deleted; go to another one (cd)\n";
  std::array<char, PATH_MAX> path;
  if (::getcwd(path.data(), path.size()) != nullptr || errno != ENOENT) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(ddprun::kExitUsage);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their own beginnings come first
// The dynamic linker calls it before the constructors of all libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*first_of_all)() noexcept = ddprun::hold_early_signals;

[[gnu::section(".preinit_array"), gnu::used]] void (*second_of_all)() noexcept = require_working_folder;
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
// first tells it. torchrun shows the message of the rank that failed first, from a file; ddprun.train raises it on
// each.
int tell(const std::string& message, int exit_code) {
  const bool told = ddprun::tell_torchrun(message) || exit_code == ddprun::kExitUsage;
  if (!told || ddprun::is_first_of_its_node() || std::getenv(ddprun::kRunFile)) ddprun::log::error(message);
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
  if (arguments.command == "complete") return ddprun::complete({argv + 2, argv + argc});
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

// SPDX-License-Identifier: MIT
// lib/ddprun/program.so: the whole program but for its first moments (main.cpp). The launcher (any command but the
// last) composes the experiment and starts the workers; each worker is this program again, with the command `worker`,
// forked from a process that has loaded it (base/fork_server.h).
#include "agent/early_signals.h"
#include "agent/error_file.h"
#include "agent/run_source.h"
#include "base/fork_server.h"
#include "base/log.h"
#include "base/openmp_threads.h"
#include "beginning.h"
#include "cli/commands.h"
#include "command_line/arguments.h"
#include "command_line/output.h"
#include "launch/worker_process.h"
#include "worker/crash_handler.h"
#include "worker/worker.h"

#include <ddprun/error.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace {

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
// first reports it. torchrun shows the message of the rank that failed first, from a file; ddprun.train raises it on
// each.
int report(const std::string& message, int exit_code) {
  const bool reported = ddprun::inform_torchrun(message) || exit_code == ddprun::kExitUsage;
  if (!reported || ddprun::is_first_of_its_node() || std::getenv(ddprun::kRunFile)) ddprun::log::error(message);
  return exit_code;
}

int run(int argc, char** argv);

// Continues as what a fork server was asked for, in place of the command that it was forked from.
int run_forked(const ddprun::ForkedCommand& command) {
  ddprun::hold_early_signals(command.blocked);
  ddprun::obey_openmp_threads();
  return run(command.argc, command.argv);
}

int run(int argc, char** argv) try {
  ddprun::set_output();
  const auto arguments = ddprun::parse_arguments(argc, argv);
  if (arguments.command == "worker") return ddprun::run_worker();
  if (arguments.command == "complete") return ddprun::complete({argv + 2, argv + argc});
  if (ddprun::starts_processes(arguments)) {
    if (const auto forked = ddprun::start_fork_server()) return run_forked(*forked);
  }
  ddprun::install_crash_handler("ddprun: ");
  ddprun::refuse_exit(/*anywhere=*/false);
  const auto code = ddprun::run_command(arguments, ddprun::feature_commands());
  return ddprun::starts_training(arguments) ? code : ddprun::with_whole_answer(code);
} catch (const ddprun::Exit& exit) {
  return ddprun::with_whole_answer(exit.code);
} catch (const ddprun::UserError& error) {  // the experiment, a plugin or the data are wrong: the text says how
  return report(error.what(), ddprun::kExitUsage);
} catch (const std::exception& error) {  // we are wrong, or the machine is
  return report(std::string("internal error: ") + error.what(), ddprun::kExitFailed);
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                             void* (*routine)(void*), void* argument) noexcept {
  static const auto create = reinterpret_cast<ddprun::CreateThread*>(::dlsym(RTLD_NEXT, "pthread_create"));
  return ddprun::create_thread_with_its_number(create, thread, attributes, routine, argument);
}
#endif

extern "C" [[gnu::visibility("default")]] int ddprun_program(const ddprun::Beginning& beginning) {
  ddprun::hold_early_signals(beginning.mask);
  const auto served = ddprun::serve_if_asked();
  if (beginning.set_spin && !served) ::unsetenv(ddprun::kSpinVariable);
  end(served ? run_forked(*served) : run(beginning.argc, beginning.argv));
}

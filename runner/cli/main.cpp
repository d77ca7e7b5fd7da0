// SPDX-License-Identifier: MIT
// ddprun: the whole program. The launcher (any command but the last) composes the experiment and starts the workers; each worker
// is this program again, with the command `worker`.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "log/log.h"
#include "train/self_report.h"
#include "train/worker.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <cstdio>
#include <iostream>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace {

// Static objects are not destroyed, nor is NCCL's group (dist/communicator.cpp): a thread that a hanging logger has left behind, or a
// collective that a dead rank has left open, must not hold up the end, and LibTorch takes a tenth of a second for its tables.
// AddressSanitizer looks for leaks in exit(), which is not called.
[[noreturn]] void end(int code) {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_do_leak_check();
#endif
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

int run(int argc, char** argv) try {
  const auto arguments = ddprun::parse_arguments(argc, argv);
  if (arguments.command == "worker") return ddprun::run_worker();
  ddprun::report_crashes("ddprun: ");
  ddprun::refuse_exit(/*anywhere=*/false);
  return ddprun::run_command(arguments);
} catch (const ddprun::Exit& exit) {
  return exit.code;
} catch (const ddprun::UserError& error) {  // the experiment, a plugin or the data are wrong: the text says how
  ddprun::log::error(error.what());
  return ddprun::kExitUsage;
} catch (const std::exception& error) {  // we are wrong, or the machine is
  ddprun::log::error(std::string("internal error: ") + error.what());
  return ddprun::kExitFailed;
}

}  // namespace

int main(int argc, char** argv) { end(run(argc, argv)); }

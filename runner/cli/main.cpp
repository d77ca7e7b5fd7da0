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

// LibTorch takes a tenth of a second to tear its tables down, as the destructors of its static objects: nobody needs that at the
// end of a process. Leaks are looked for before that, for a worker that calls exit() has failed.
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

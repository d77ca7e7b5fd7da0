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
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace {

// LibTorch takes a tenth of a second to tear its tables down, as the destructors of its static objects: nobody needs that at the
// end of a process. Sanitizers look for leaks after them.
[[noreturn]] void end(int code) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::exit(code);
#endif
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

// What is written to a terminal is shown there and not obeyed: names in a run's folder may be anybody's.
class ShownText final : public std::stringbuf {
  int sync() override {
    const auto text = ddprun::log::shown(str());
    str("");
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : -1;
  }
};

// A full disk may have cut off what a script then takes for the whole answer. The lines of a run are none: they are in its files too.
int with_whole_answer(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  ddprun::log::error("cannot write the whole answer to standard output; is the disk full?");
  return code == ddprun::kExitDone ? ddprun::kExitFailed : code;
}

int run(int argc, char** argv) try {
  const auto arguments = ddprun::parse_arguments(argc, argv);
  if (arguments.command == "worker") return ddprun::run_worker();
  ddprun::report_crashes("ddprun: ");
  ddprun::refuse_exit(/*anywhere=*/false);
  const auto code = ddprun::run_command(arguments);
  const bool trains = arguments.command == "run" || arguments.command == "resume";
  return trains ? code : with_whole_answer(code);
} catch (const ddprun::Exit& exit) {
  return with_whole_answer(exit.code);
} catch (const ddprun::UserError& error) {  // the experiment, a plugin or the data are wrong: the text says how
  ddprun::log::error(error.what());
  return ddprun::kExitUsage;
} catch (const std::exception& error) {  // we are wrong, or the machine is
  ddprun::log::error(std::string("internal error: ") + error.what());
  return ddprun::kExitFailed;
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

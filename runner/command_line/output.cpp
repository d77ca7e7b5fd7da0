// SPDX-License-Identifier: MIT
#include "command_line/output.h"

#include "base/log.h"
#include "launch/worker_process.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>

namespace ddprun {
namespace {

class ShownText final : public std::stringbuf {
  int sync() override {
    const auto text = log::shown(str());
    str("");
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : -1;
  }
};

}  // namespace

void set_output() {
  static ShownText shown;
  static auto* const plain = std::cout.rdbuf();
  const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  std::cout.rdbuf(is_terminal ? &shown : plain);
  std::cout << (is_terminal ? std::unitbuf : std::nounitbuf);
}

int with_whole_answer(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  log::error("cannot write the whole answer to standard output; is the disk full?");
  return code == kExitDone ? kExitFailed : code;
}

}  // namespace ddprun

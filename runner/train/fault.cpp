// SPDX-License-Identifier: MIT
#include "train/fault.h"

#include <ddprun/error.h>

#include <csignal>
#include <cstdlib>
#include <regex>
#include <string>

namespace ddprun {

std::function<void(std::string_view)> fault_from_environment(int rank, std::function<int64_t()> step) {
  const char* written = std::getenv("DDPRUN_FAULT");
  if (written == nullptr || *written == '\0') return nullptr;
  static const std::regex form(R"(kill:([a-z_]+):(\d{1,9})(?::(\d{1,6}))?)");
  std::cmatch parts;
  if (!std::regex_match(written, parts, form)) {
    throw UserError(std::string("DDPRUN_FAULT: expected kill:<point>:<step>[:<rank>], found ") + written);
  }
  const int doomed_rank = parts[3].matched ? std::stoi(parts[3]) : 0;
  if (rank != doomed_rank) return nullptr;
  return [point = parts[1].str(), at = std::stoll(parts[2]), step = std::move(step)](std::string_view reached) {
    if (reached == point && step() == at) std::raise(SIGKILL);
  };
}

}  // namespace ddprun

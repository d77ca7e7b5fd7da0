// SPDX-License-Identifier: MIT
#include "train/fault.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>

namespace ddprun {
namespace {

[[noreturn]] void hang() {
  for (;;) ::pause();
}

const std::map<std::string, void (*)()>& kinds() {
  static const std::map<std::string, void (*)()> kinds{
      {"kill", [] { std::raise(SIGKILL); }},
      {"segv", [] { std::raise(SIGSEGV); }},
      {"abort", [] { std::raise(SIGABRT); }},
      {"stop", [] { std::raise(SIGSTOP); }},
      {"exit", [] { ::_exit(3); }},
      {"hang", [] { hang(); }},
      {"throw", [] { throw std::runtime_error("an injected fault"); }}};
  return kinds;
}

bool same_point(std::string_view reached, std::string_view wanted) {
  return std::ranges::equal(reached, wanted, [](char a, char b) { return a == b || (a == ' ' && b == '_'); });
}

}  // namespace

ReachPoint fault_from_environment(int rank, int attempt) {
  const char* written = std::getenv("DDPRUN_FAULT");
  if (written == nullptr || *written == '\0') return nullptr;
  static const std::regex form(R"(([a-z]+):([a-z_]+):(\d{1,9})(?::(\d{1,6})(?::(\d{1,6}))?)?)");
  std::cmatch parts;
  const bool fits = std::regex_match(written, parts, form) && kinds().contains(parts[1]);
  if (!fits)
    throw UserError(std::string("DDPRUN_FAULT: expected <kind>:<point>:<step>[:<rank>[:<attempt>]], found ") + written);
  const auto number = [&parts](int part) { return parts[part].matched ? std::stoi(parts[part]) : 0; };
  if (rank != number(4) || attempt != number(5)) return nullptr;
  return [fault = kinds().at(parts[1]), wanted = parts[2].str(), at = number(3)](std::string_view point, int64_t step) {
    if (step == at && same_point(point, wanted)) fault();
  };
}

}  // namespace ddprun

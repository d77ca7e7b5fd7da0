// SPDX-License-Identifier: MIT
#include "base/call_lines.h"

#include "base/program.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr double kLongestLookup = 10;  // seconds

struct Call {
  std::string file, symbol;
  size_t offset = 0;  // in the symbol, or in the file if there is none
};

std::optional<Call> parsed(std::string_view line) {
  const auto open = line.rfind('('), close = line.rfind(')'), bracket = line.rfind('[');
  if (open == line.npos || close == line.npos || bracket == line.npos || !(open < close && close < bracket)) return {};
  const auto plus = line.rfind("+0x", close);
  if (!line.ends_with(']') || plus == line.npos || plus < open) return {};
  const std::string digits(line.substr(plus + 3, close - plus - 3));
  char* end = nullptr;
  const auto offset = std::strtoull(digits.c_str(), &end, 16);
  if (digits.empty() || *end != '\0') return {};
  return Call{std::string(line.substr(0, open)), std::string(line.substr(open + 1, plus - open - 1)), offset};
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return name ? name.get() : symbol;
}

std::string hexadecimal(size_t number) {
  std::ostringstream text;
  text << "0x" << std::hex << number;
  return text.str();
}

// Returns "Net::forward(at::Tensor const&) at net.cpp:16" and the calls inlined there; empty if nothing is known.
std::vector<std::string> looked_up(const Call& call, bool crashed_here) {
  const auto address = call.offset - (crashed_here ? 0 : 1);  // other frames hold the return address
  const auto found = run_program({"addr2line", "-Cfpie", call.file, hexadecimal(address)}, {.seconds = kLongestLookup});
  std::vector<std::string> names;
  std::istringstream lines(found.output);
  for (std::string line; found.exit_code == 0 && std::getline(lines, line);) {
    if (line.starts_with("??")) break;
    for (const std::string_view inlined = " (inlined by) "; line.starts_with(inlined);) line.erase(0, inlined.size());
    names.push_back(line.substr(0, line.find(" at ??:")));
  }
  return names;
}

}  // namespace

bool is_call_line(std::string_view line) { return parsed(line).has_value(); }

std::deque<std::string> with_named_calls(const std::deque<std::string>& lines) {
  const bool can_look_up = has_program("addr2line");
  std::error_code error;
  const std::array own{own_program(), own_library()};
  std::deque<std::string> result;
  bool first = true;
  for (const auto& line : lines) {
    const auto call = parsed(line);
    if (!call) {
      first = line.ends_with(kCallsFollow);
      result.push_back(line);
      continue;
    }
    const bool crashed_here = std::exchange(first, false);
    const auto is_call_of = [&](const auto& file) { return std::filesystem::equivalent(call->file, file, error); };
    if (std::ranges::any_of(own, is_call_of)) continue;
    std::vector<std::string> names;
    if (!call->symbol.empty()) names = {demangled(call->symbol)};
    if (names.empty() && can_look_up) names = looked_up(*call, crashed_here);
    if (names.empty()) names = {line};
    for (const auto& name : names)
      if (!name.starts_with("__libc_start")) result.push_back("  " + name);  // it calls main()
  }
  return result;
}

}  // namespace ddprun

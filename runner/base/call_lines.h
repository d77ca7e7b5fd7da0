// SPDX-License-Identifier: MIT
// Turns glibc's backtrace_symbols_fd lines of a crash, FILE(SYMBOL+OFFSET)[ADDRESS] or FILE(+ADDRESS)[ADDRESS], into
// readable ones. A process that has crashed cannot do that for itself.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace ddprun {

// The end of the line before the first call.
inline constexpr std::string_view kCallsFollow = "; the calls that led there:";

bool is_call_line(std::string_view line);

// Returns the same lines with the calls named: functions are demangled, and those of plugins get file and line if their
// debug information has them (needs addr2line, of binutils; without it the line stays as it is). Leaves out this
// program's own calls.
std::deque<std::string> with_named_calls(const std::deque<std::string>& lines);

}  // namespace ddprun

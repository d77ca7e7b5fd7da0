// SPDX-License-Identifier: MIT
// The calls that led to a crash, as glibc's backtrace_symbols_fd writes them, FILE(SYMBOL+OFFSET)[ADDRESS] or
// FILE(+ADDRESS)[ADDRESS], and as people read them. A process that has crashed cannot do that for itself.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace ddprun {

// What stands at the end of the line before the first call.
inline constexpr std::string_view kCallsFollow = "; the calls that led there:";

bool is_call_line(std::string_view line);

// The same lines, but with the calls named: functions demangled, of a plugin with file and line as far as its debug
// information has them (addr2line, of binutils; where that is missing the line stays as it is). Those of this program
// itself are left out.
std::deque<std::string> with_named_calls(const std::deque<std::string>& lines);

}  // namespace ddprun

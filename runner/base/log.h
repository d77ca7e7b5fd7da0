// SPDX-License-Identifier: MIT
// Messages for people, on standard error. Only log.cpp includes spdlog, and no torch header: torch's include folder
// shadows the fmt that spdlog needs.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace ddprun::log {

// Sets what each line begins with ("ddprun", "rank 1"). Call it before the first message. Everything here is
// thread-safe.
void set_prefix(const std::string& prefix);

// The environment variable DDPRUN_LOG selects the messages: "quiet" shows warnings and errors, "verbose" everything; by
// default everything but debug(). Workers inherit it.
inline constexpr auto kLevelVariable = "DDPRUN_LOG";
bool is_quiet();

// Each prints one message; newlines at its end are dropped.
void debug(const std::string& text);
void info(const std::string& text);
void warn(const std::string& text);
void error(const std::string& text);

// Hides a secret of this process: all messages, and text passed through masked(), contain `shown` instead. A secret of
// less than four bytes is not replaced, since it would match everywhere.
void hide(const std::string& secret, const std::string& shown);
std::string masked(std::string text);

// Returns the text with a ? in place of escape codes and control characters other than tabs and newlines, which a
// terminal would obey. All messages pass through it: names in an experiment or a run's folder may come from anyone.
std::string shown(std::string_view text);

// Concatenates the parts: log::info(log::text("step ", step, " of ", steps)).
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

}  // namespace ddprun::log

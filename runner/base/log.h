// SPDX-License-Identifier: MIT
// Messages for people, on standard error. spdlog stays behind this header: torch's include folder shadows the fmt that
// spdlog needs, so only log.cpp, which sees no torch header, includes it.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace ddprun::log {

// Before the first message: what each line begins with ("ddprun", "rank 1"). Thread-safe, as all of this.
void set_prefix(const std::string& prefix);

// The variable DDPRUN_LOG says which are shown: "quiet" warnings and errors, "verbose" all; else all but debug().
// Workers inherit it.
inline constexpr auto kLevelVariable = "DDPRUN_LOG";
bool is_quiet();

// One message each; newlines at its end do not count.
void debug(const std::string& text);
void info(const std::string& text);
void warn(const std::string& text);
void error(const std::string& text);

// Secrets of this process: all messages, and what goes through masked() elsewhere, have `shown` in their place. One of
// less than four bytes stays as it is: it is found everywhere, and hides nothing.
void hide(const std::string& secret, const std::string& shown);
std::string masked(std::string text);

// The text as a terminal shows it: what it would obey, escape codes and other control characters but tabs and newlines,
// is a ?. The messages above are shown so; names in an experiment or in a run's folder may be anybody's.
std::string shown(std::string_view text);

// The parts as one text: log::info(log::text("step ", step, " of ", steps)).
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

}  // namespace ddprun::log

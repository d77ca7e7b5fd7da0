// SPDX-License-Identifier: MIT
// Time in seconds, as in the run's options, rows and reports.
#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace ddprun {

// Returns seconds since 1970, for rows and reports.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns seconds of this machine's steady clock, which all its processes share and nobody sets. Another machine's
// begins elsewhere: what travels is an age.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the seconds since 1970 of a moment that steady_seconds() gave.
inline double wall_seconds_at(double steady_seconds_then) {
  return wall_seconds() - (steady_seconds() - steady_seconds_then);
}

// Returns the local time in a format of strftime().
inline std::string local_time(const char* form) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, form, &parts);
  return text;
}

inline constexpr auto kTimeStamp = "%Y-%m-%dT%H:%M:%S%z";

// Returns the local time for a folder's name: "2026-11-20_12-00-00".
inline std::string local_time_stamp() { return local_time("%Y-%m-%d_%H-%M-%S"); }

// Returns the local time for records: "2026-11-20T12:00:00+0100".
inline std::string time_stamp() { return local_time(kTimeStamp); }

// Returns seconds since 1970, or 0 if the text is not a time_stamp().
inline double parse_time_stamp(const std::string& text) {
  std::tm parts{};
  if (!::strptime(text.c_str(), kTimeStamp, &parts)) return 0;
  const auto offset = parts.tm_gmtoff;
  return static_cast<double>(::timegm(&parts) - offset);
}

// Converts seconds for deadlines.
inline std::chrono::steady_clock::duration seconds(double value) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(value));
}

// Measures from construction or the last restart.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Measures from a moment that another process of this machine reported. It is the steady clock's: setting the wall
// clock meanwhile changes nothing.
class TimeSince {
 public:
  explicit TimeSince(double steady_seconds_then) : then_(steady_seconds_then) {}
  double seconds() const { return steady_seconds() - then_; }

 private:
  double then_;
};

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// A preloaded library whose wall clock leaps between yesterday and tomorrow, twenty times a second: what a machine's
// does when somebody sets it, and much worse. Steady clocks and the time stamps of files stay the kernel's.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <ctime>

namespace {

timespec read_clock(clockid_t clock) {
  timespec now{};
  syscall(SYS_clock_gettime, clock, &now);
  return now;
}

timespec leaping_now() {
  constexpr long kDay = 24 * 60 * 60, kNanosecondsOfALeap = 50'000'000;
  auto now = read_clock(CLOCK_REALTIME);
  const bool ahead = read_clock(CLOCK_MONOTONIC).tv_nsec / kNanosecondsOfALeap % 2 == 0;
  now.tv_sec += ahead ? kDay : -kDay;
  return now;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (clock != CLOCK_REALTIME) return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  *now = leaping_now();
  return 0;
}

int gettimeofday(timeval* now, void*) noexcept {
  const auto leaping = leaping_now();
  *now = {.tv_sec = leaping.tv_sec, .tv_usec = leaping.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  const auto seconds = leaping_now().tv_sec;
  if (now) *now = seconds;
  return seconds;
}
}

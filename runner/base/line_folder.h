// SPDX-License-Identifier: MIT
// Decides which lines of which ranks are shown. Rank 0's are shown at once. Lines of the others wait for a moment, so
// that the same line from several ranks is shown once, with their numbers; if rank 0 prints it too, only rank 0's is
// shown. A rank that prints too much is cut short, with a count of what was left out. The log files have everything.
//
// Has no clock and no terminal: the launcher passes the time in and takes the lines out.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ddprun {

class LineFolder {
 public:
  using Clock = std::chrono::steady_clock;
  using Show = std::function<void(const std::string& line)>;

  static constexpr std::chrono::milliseconds kWindow{300};  // how long a line waits for the same from other ranks
  static constexpr std::chrono::seconds kMemory{5};         // how long rank 0's lines suppress the same from others
  static constexpr double kLinesPerSecond = 20;             // shown from rank 0, and from all others together
  static constexpr double kBurst = 100;

  explicit LineFolder(Show show);

  // A leading "rank <its own number>: " is ignored when lines are compared.
  void add(int rank, std::string_view line, Clock::time_point now);
  void flush(Clock::time_point now);             // shows what has waited long enough
  void finish();                                 // shows what is still waiting, and what was left out
  std::optional<Clock::time_point> due() const;  // when flush() will have something to do

 private:
  struct Waiting {
    std::string text;
    std::set<int> ranks;
    Clock::time_point since;
  };
  struct Said {
    std::string text;
    Clock::time_point at;
  };
  // A token bucket for lines: refilled at kLinesPerSecond up to kBurst.
  struct Budget {
    double tokens = kBurst;
    std::optional<Clock::time_point> filled;
    bool spend(Clock::time_point now);
  };

  void add_of_rank_0(std::string_view line, Clock::time_point now);
  void show_waiting(const Waiting& waiting, Clock::time_point now);
  void leave_out(int rank, Clock::time_point now);
  void say_left_out();

  Show show_;
  std::deque<Waiting> waiting_;  // oldest first
  std::deque<Said> said_;        // by rank 0, oldest first
  Budget first_budget_, other_budget_;
  std::map<int, size_t> left_out_;  // lines by rank
  Clock::time_point left_out_since_;
};

std::string join_numbers(const std::set<int>& numbers);  // "1-3,7"
std::string name_ranks(const std::set<int>& ranks);      // "rank 2", "ranks 1-3,7"

}  // namespace ddprun

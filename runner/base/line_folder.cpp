// SPDX-License-Identifier: MIT
#include "base/line_folder.h"

#include <algorithm>
#include <iterator>

namespace ddprun {
namespace {

constexpr size_t kMostWaiting = 200;
constexpr size_t kMostSaid = 1000;
constexpr size_t kShownBytes = 2000;
constexpr std::chrono::seconds kLeftOutAfter{1};

std::string_view without_own_number(int rank, std::string_view line) {
  const std::string prefix = "rank " + std::to_string(rank) + ": ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

std::string shortened(std::string_view line) {
  if (line.size() <= kShownBytes) return std::string(line);
  return std::string(line.substr(0, kShownBytes)) + " ...";
}

}  // namespace

bool LineFolder::Budget::spend(Clock::time_point now) {
  if (filled) tokens += std::chrono::duration<double>(now - *filled).count() * kLinesPerSecond;
  tokens = std::min(tokens, kBurst);
  filled = now;
  if (tokens < 1) return false;
  tokens -= 1;
  return true;
}

LineFolder::LineFolder(Show show) : show_(std::move(show)) {}

void LineFolder::add(int rank, std::string_view line, Clock::time_point now) {
  while (!said_.empty() && now - said_.front().at > kMemory) said_.pop_front();
  if (rank == 0) return add_of_rank_0(line, now);

  const std::string text = shortened(without_own_number(rank, line));
  const auto same = [&](const auto& other) { return other.text == text; };
  if (std::any_of(said_.begin(), said_.end(), same)) return;
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), same);
  if (found != waiting_.end()) {
    found->ranks.insert(rank);
  } else if (waiting_.size() < kMostWaiting) {
    waiting_.push_back({text, {rank}, now});
  } else {
    leave_out(rank, now);
  }
}

void LineFolder::add_of_rank_0(std::string_view line, Clock::time_point now) {
  const std::string text = shortened(without_own_number(0, line));
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.text == text; });
  if (!first_budget_.spend(now)) return leave_out(0, now);
  if (said_.size() == kMostSaid) said_.pop_front();
  said_.push_back({text, now});
  show_(shortened(line));
}

void LineFolder::flush(Clock::time_point now) {
  while (!waiting_.empty() && now - waiting_.front().since >= kWindow) {
    show_waiting(waiting_.front(), now);
    waiting_.pop_front();
  }
  if (!left_out_.empty() && now - left_out_since_ >= kLeftOutAfter) say_left_out();
}

void LineFolder::finish() {
  if (!waiting_.empty()) flush(waiting_.back().since + kWindow);
  say_left_out();
}

std::optional<LineFolder::Clock::time_point> LineFolder::due() const {
  std::optional<Clock::time_point> due;
  if (!waiting_.empty()) due = waiting_.front().since + kWindow;
  if (!left_out_.empty()) due = std::min(due.value_or(Clock::time_point::max()), left_out_since_ + kLeftOutAfter);
  return due;
}

void LineFolder::show_waiting(const Waiting& waiting, Clock::time_point now) {
  if (other_budget_.spend(now)) return show_(std::string("[").append(name_ranks(waiting.ranks)) + "] " + waiting.text);
  for (const int rank : waiting.ranks) leave_out(rank, now);
}

void LineFolder::leave_out(int rank, Clock::time_point now) {
  if (left_out_.empty()) left_out_since_ = now;
  ++left_out_[rank];
}

void LineFolder::say_left_out() {
  for (const auto& [rank, lines] : left_out_) {
    show_("[rank " + std::to_string(rank) + "] ... " + std::to_string(lines) + " more lines in logs/rank_" +
          std::to_string(rank) + ".log");
  }
  left_out_.clear();
}

std::string join_numbers(const std::set<int>& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(*first);
    if (last != first) text.append("-").append(std::to_string(*last));
    first = std::next(last);
  }
  return text;
}

std::string name_ranks(const std::set<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  return text.append(join_numbers(ranks));
}

}  // namespace ddprun

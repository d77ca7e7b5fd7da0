// SPDX-License-Identifier: MIT
#include "config/interval.h"

#include "config/sections.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace ddprun {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// Reads a count. One that begins with 0, 010, is none: other readers of YAML take it for octal.
std::optional<int64_t> count_in(std::string_view text) {
  return text.starts_with('0') && text.size() > 1 ? std::nullopt : number_in<int64_t>(text);
}

// Parses "01:30:00", with hours beyond 24 too.
std::optional<double> clock_seconds(std::string_view text) {
  double seconds = 0;
  int fields = 0;
  for (; !text.empty(); ++fields) {
    const auto colon = std::min(text.find(':'), text.size());
    const auto field = number_in<int64_t>(text.substr(0, colon));
    if (!field || *field < 0 || *field > kMost || (fields > 0 && *field > 59)) return std::nullopt;
    seconds = seconds * 60 + static_cast<double>(*field);
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return fields == 3 ? std::optional(seconds) : std::nullopt;
}

}  // namespace

int64_t Limit::of(int64_t all) const {
  if (none() || all < 1) return all;
  const auto wanted = batches > 0 ? batches : static_cast<int64_t>(std::floor(share * static_cast<double>(all)));
  return std::clamp<int64_t>(wanted, 1, all);
}

std::optional<Interval> parse_interval(std::string_view text) {
  const auto unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == text.npos) return std::nullopt;
  const auto amount = text.substr(0, unit_at);
  const auto unit = text.substr(unit_at);
  if (unit == "ep" || unit == "st") {
    const auto count = count_in(amount);
    if (!count || *count < 1 || *count > kMost) return std::nullopt;
    return unit == "ep" ? Interval{.epochs = *count} : Interval{.steps = *count};
  }
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {{{"s", 1}, {"min", 60}, {"h", 3600}}};
  for (const auto& [name, seconds] : kUnits) {
    const auto count = number_in<double>(amount);
    if (unit == name && count && *count > 0 && *count <= 1e6) return Interval{.seconds = *count * seconds};
  }
  return std::nullopt;
}

std::optional<double> parse_duration(std::string_view text) {
  if (const auto interval = parse_interval(text)) {
    return interval->seconds > 0 ? std::optional(interval->seconds) : std::nullopt;
  }
  double days = 0;
  if (const auto dash = text.find('-'); dash != text.npos) {
    const auto count = number_in<int64_t>(text.substr(0, dash));
    if (!count || *count < 0 || *count > 10'000) return std::nullopt;
    days = static_cast<double>(*count);
    text.remove_prefix(dash + 1);
  }
  const auto seconds = clock_seconds(text);
  if (!seconds || *seconds + days == 0) return std::nullopt;
  return *seconds + days * 86'400;
}

std::optional<Limit> parse_limit(std::string_view text) {
  if (text == "all") return Limit{};
  if (const auto count = number_in<int64_t>(text)) {
    return count_in(text) && *count >= 1 && *count <= kMost ? std::optional(Limit{.batches = *count}) : std::nullopt;
  }
  const auto share = number_in<double>(text);
  return share && *share > 0 && *share <= 1 ? std::optional(Limit{.share = *share}) : std::nullopt;
}

Interval read_interval(Options& options, std::string_view name, const std::string& fallback, const std::string& nothing,
                       bool clock, std::string_view help) {
  const auto text = options.get<std::string>(name, fallback, help);
  const auto interval = parse_interval(text);
  if (interval && (clock || interval->seconds == 0)) return *interval;
  if (text != nothing) {
    options.reject(name, std::string("expected 1ep, 200st") + (clock ? ", 10min, 30s, 2h or " : " or ") + nothing +
                             ", found \"" + text + "\"");
  }
  return {};
}

double read_duration(Options& options, std::string_view name, std::string_view help) {
  const auto text = options.get<std::string>(name, "none", help);
  const auto seconds = parse_duration(text);
  if (!seconds && text != "none")
    options.reject(name, "expected 90min, 2h, 01:30:00, 1-12:00:00 or none, found \"" + text + "\"");
  return seconds.value_or(0);
}

}  // namespace ddprun

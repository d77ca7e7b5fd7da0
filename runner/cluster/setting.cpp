// SPDX-License-Identifier: MIT
#include "cluster/setting.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <charconv>

namespace ddprun {

int Setting::number(int lowest, int highest) const {
  int number = 0;
  const auto* last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, number);
  if (error == std::errc{} && end == last && number >= lowest && number <= highest) return number;
  const bool open = highest == std::numeric_limits<int>::max();
  const auto range = open ? " of at least " + std::to_string(lowest)
                          : " from " + std::to_string(lowest) + " to " + std::to_string(highest);
  throw UserError(text() + ": expected a whole number" + range);
}

void contradict(const Setting& one, const Setting& other, const std::string& why) {
  throw UserError(one.text() + " and " + other.text() + " contradict each other: " + why);
}

void require_below(const Setting& one, const Setting& limit) {
  if (one.number(0) >= limit.number(1)) contradict(one, limit, "the first must be below the second");
}

std::optional<Setting> Environment::find(std::initializer_list<const char*> names) const {
  for (const auto* name : names) {
    const auto found = variables_.find(name);
    if (found != variables_.end() && !found->second.empty()) return Setting{found->first, found->second};
  }
  return std::nullopt;
}

Environment process_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(variables));
}

}  // namespace ddprun

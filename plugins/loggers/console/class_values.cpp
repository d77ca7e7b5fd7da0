// SPDX-License-Identifier: MIT
#include "class_values.h"

#include "text_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddprun::console {
namespace {

constexpr size_t kMostInALine = 3;

// Returns the part of the name between the split and the next slash; empty if there is none.
std::string metric_of(const std::string& name, const std::string& split) {
  if (!name.starts_with(split)) return "";
  const auto slash = name.find('/', split.size());
  return slash == name.npos ? "" : name.substr(split.size(), slash - split.size());
}

}  // namespace

std::vector<ClassValues> take_class_values(Values& values, const std::string& split) {
  std::vector<ClassValues> groups;
  for (const auto& [name, value] : values) {
    const auto metric = metric_of(name, split);
    if (metric.empty()) continue;
    auto group = std::ranges::find(groups, metric, &ClassValues::metric);
    if (group == groups.end()) group = groups.insert(groups.end(), {.metric = metric, .values = {}});
    group->values.emplace_back(name.substr(split.size() + metric.size() + 1), value);
  }
  std::erase_if(groups, [](const ClassValues& group) { return group.values.size() <= kMostInALine; });
  std::erase_if(values, [&](const auto& value) {
    return std::ranges::find(groups, metric_of(value.first, split), &ClassValues::metric) != groups.end();
  });
  return groups;
}

std::vector<std::string> lowest_in_lines(std::vector<std::pair<double, std::string>> items, size_t most, size_t width) {
  if (items.size() > most) {
    const auto order = [](const auto& item) {
      return std::isnan(item.first) ? std::numeric_limits<double>::infinity() : item.first;
    };
    std::ranges::stable_sort(items, std::less(), order);
    items.resize(most);
  }
  std::vector<std::string> lines;
  for (const auto& [value, item] : items) {
    if (lines.empty() || shown_width(lines.back()) + 3 + shown_width(item) > width) {
      lines.push_back(item);
    } else {
      lines.back() += "   " + item;
    }
  }
  return lines;
}

}  // namespace ddprun::console

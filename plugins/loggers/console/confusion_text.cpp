// SPDX-License-Identifier: MIT
#include "confusion_text.h"

#include "class_values.h"
#include "terminal_text.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

namespace ddprun::console {
namespace {

// Returns the accuracy per class; -1 for a class without samples.
std::vector<double> accuracies(const ConfusionTable& table) {
  const size_t classes = table.class_names.size();
  std::vector<double> shares;
  for (size_t truth = 0; truth < classes; ++truth) {
    const auto* row = &table.counts.at(truth * classes);
    const auto samples = std::accumulate(row, row + classes, int64_t{0});
    shares.push_back(samples == 0 ? -1 : static_cast<double>(row[truth]) / static_cast<double>(samples));
  }
  return shares;
}

}  // namespace

std::vector<std::string> worst_confusions(const ConfusionTable& table, size_t most) {
  const size_t classes = table.class_names.size();
  std::vector<size_t> wrong;
  for (size_t at = 0; at < table.counts.size(); ++at) {
    if (table.counts[at] > 0 && at / classes != at % classes) wrong.push_back(at);
  }
  std::ranges::stable_sort(wrong, std::greater(), [&](size_t at) { return table.counts[at]; });
  std::vector<std::string> lines;
  for (const size_t at : wrong) {
    if (lines.size() == most) break;
    const auto count = table.counts[at];
    lines.push_back(table.class_names[at / classes] + " taken for " + table.class_names[at % classes] + ": " +
                    grouped(count) + (count == 1 ? " time" : " times"));
  }
  return lines;
}

std::vector<std::string> class_accuracies(const ConfusionTable& table, size_t most, size_t width) {
  const auto shares = accuracies(table);
  std::vector<std::pair<double, std::string>> shown;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] < 0) continue;
    char percent[16];
    std::snprintf(percent, sizeof percent, " %.1f %%", 100 * shares[i]);
    shown.emplace_back(shares[i], table.class_names[i] + percent);
  }
  return lowest_in_lines(std::move(shown), most, width);
}

}  // namespace ddprun::console

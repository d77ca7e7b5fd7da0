// SPDX-License-Identifier: MIT
#include "runs/folds.h"

#include "runs/config_lines.h"
#include "shown_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string without_sigil(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('+'), word.size()));
}

bool is_fold(const std::string& word) { return without_sigil(word).starts_with("dataset.fold="); }

// Runs that differ in their fold alone; by fold.
struct Group {
  Overrides others;
  std::string folder;  // below that of the list
  std::map<std::string, const ListedRun*> folds;
};

using Key = std::pair<fs::path, std::set<std::string>>;  // the folder, and what the runs have in common

std::map<Key, Group> groups_of(const std::vector<ListedRun>& runs) {
  std::map<Key, Group> groups;
  for (const auto& run : runs) {
    const auto fold = std::ranges::find_if(run.overrides, is_fold);
    if (fold == run.overrides.end() || !run.state.best || !has_trained_to_the_end(run.state.status)) continue;
    auto others = run.overrides;
    std::erase_if(others, [](const std::string& word) { return is_fold(word) || word.starts_with("run.dir="); });
    std::set<std::string> common(others.begin(), others.end());
    common.insert(run.state.best_name);
    auto& group = groups[{run.path.parent_path(), std::move(common)}];
    group.others = std::move(others);
    group.folder = fs::path(run.label).parent_path().string();
    auto& newest = group.folds[without_sigil(*fold)];
    if (!newest || newest->state.started < run.state.started) newest = &run;
  }
  std::erase_if(groups, [](const auto& entry) { return entry.second.folds.size() < 2; });
  return groups;
}

std::string spread_text(const std::map<std::string, const ListedRun*>& folds) {
  std::vector<double> bests;
  for (const auto& [fold, run] : folds) bests.push_back(*run->state.best);
  const auto count = static_cast<double>(bests.size());
  const double mean = std::accumulate(bests.begin(), bests.end(), 0.0) / count;
  const auto add = [&](double sum, double best) { return sum + (best - mean) * (best - mean); };
  const double spread = std::sqrt(std::accumulate(bests.begin(), bests.end(), 0.0, add) / (count - 1));
  char text[96];
  std::snprintf(text, sizeof text, " %.4g +- %.2g: mean and standard deviation of %zu folds\n", mean, spread,
                bests.size());
  return folds.begin()->second->state.best_name + text;
}

}  // namespace

std::string folds_text(const std::vector<ListedRun>& runs) {
  const auto groups = groups_of(runs);
  std::vector<Overrides> others;
  for (const auto& [key, group] : groups) others.push_back(group.others);
  const auto apart = overrides_apart(others);
  std::string text;
  size_t number = 0;
  for (const auto& [key, group] : groups) {
    auto which = group.folder + (group.folder.empty() || apart[number].empty() ? "" : " ") + apart[number];
    text += shown(which + (which.empty() ? "" : ": ")) + spread_text(group.folds);
    ++number;
  }
  return text;
}

}  // namespace ddprun

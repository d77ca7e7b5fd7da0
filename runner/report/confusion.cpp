// SPDX-License-Identifier: MIT
#include "report/confusion.h"

#include "report/run_state.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;
using Counts = std::vector<std::vector<int64_t>>;

constexpr size_t kMostDrawnClasses = 200;
constexpr size_t kMostPairs = 20;

constexpr int64_t kMostCount = 1'000'000'000'000;  // per pair, so that a whole table can be added up

Counts counts_of(const nlohmann::json& table) {
  Counts counts;
  for (const auto& row : table.at("counts")) {
    auto& read = counts.emplace_back();
    for (const auto& value : row) read.push_back(recorded_count(value));
    if (!std::ranges::all_of(read, [](int64_t count) { return 0 <= count && count <= kMostCount; }))
      throw std::runtime_error("a count is out of range");
  }
  return counts;
}

struct Pair {
  size_t truth = 0, guess = 0;
  int64_t count = 0;
};

void require_square(const Counts& counts, size_t classes) {
  const auto fits = [&](const std::vector<int64_t>& row) { return row.size() == classes; };
  if (counts.size() != classes || !std::ranges::all_of(counts, fits))
    throw std::runtime_error("expected " + std::to_string(classes) + " rows and columns");
}

std::vector<Pair> confused_pairs(const Counts& counts) {
  std::vector<Pair> pairs;
  for (size_t truth = 0; truth < counts.size(); ++truth) {
    for (size_t guess = 0; guess < counts.size(); ++guess) {
      if (truth != guess && counts[truth][guess] > 0) pairs.push_back({truth, guess, counts[truth][guess]});
    }
  }
  const auto shown = std::min(pairs.size(), kMostPairs);
  std::ranges::partial_sort(pairs, pairs.begin() + static_cast<std::ptrdiff_t>(shown), std::ranges::greater(),
                            &Pair::count);
  pairs.resize(shown);
  return pairs;
}

}  // namespace

Json shown_confusion(const nlohmann::json& table) {
  const auto classes = table.at("classes").get<std::vector<std::string>>();
  const auto counts = counts_of(table);
  require_square(counts, classes.size());
  auto totals = Json::array();
  int64_t correct = 0;
  for (size_t truth = 0; truth < counts.size(); ++truth) {
    int64_t total = 0;
    for (const auto count : counts[truth]) total += count;
    totals.push_back(total);
    correct += counts[truth][truth];
  }
  auto pairs = Json::array();
  for (const auto& pair : confused_pairs(counts)) pairs.push_back({pair.truth, pair.guess, pair.count});
  Json shown{{"classes", classes}, {"totals", totals}, {"correct", correct}, {"pairs", pairs}};
  if (classes.size() <= kMostDrawnClasses) shown["counts"] = counts;
  return shown;
}

}  // namespace ddprun

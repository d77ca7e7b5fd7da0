// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <ddprun/folds.h>
#include <ddprun/random.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace ddprun {
namespace {

constexpr int64_t kMostFolds = 1000;
constexpr uint64_t kFoldStream = 0x666F6C6473000000;  // "folds": distinct from other uses of the seed

// Returns the samples' numbers, shuffled and then sorted by class.
std::vector<size_t> by_class(std::span<const int64_t> labels, uint64_t seed, uint64_t stream) {
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  RandomStream(seed, stream).shuffle(order);
  std::ranges::stable_sort(order, {}, [&](size_t sample) { return labels[sample]; });
  return order;
}

}  // namespace

Fold Fold::read(Options& options, const char* rival) {
  Fold fold;
  fold.count = options.get<int64_t>("folds", 0, "cross-validation: the parts that train is divided into; 0: none",
                                    {.min = 0, .max = kMostFolds});
  fold.number = options.get<int64_t>("fold", 0, "the part, from 0, that is held out as val", {.min = 0});
  if (fold.count == 1) options.reject("folds", "expected 2 or more, or 0 for none");
  if (fold.count == 0 && fold.number > 0) options.reject("fold", "of how many? Set dataset.folds too");
  if (fold.count > 1 && fold.number >= fold.count)
    options.reject("fold", "expected 0 to " + std::to_string(fold.count - 1) + ", since folds is " +
                               std::to_string(fold.count) + "; found " + std::to_string(fold.number));
  if (fold.count > 0 && options.has(rival)) options.reject(rival, "folds holds out val already; give one or the other");
  return fold;
}

std::vector<int64_t> assign_folds(std::span<const int64_t> labels, int64_t count, uint64_t seed) {
  if (count < 2 || count > static_cast<int64_t>(labels.size()))
    throw UserError("dataset.folds is " + std::to_string(count) + ", expected 2 to " + std::to_string(labels.size()) +
                    ", the number of training samples");
  const auto order = by_class(labels, seed, kFoldStream);
  std::vector<int64_t> folds(labels.size());
  for (size_t place = 0; place < order.size(); ++place) folds[order[place]] = static_cast<int64_t>(place) % count;
  return folds;
}

std::vector<bool> choose_evenly(std::span<const int64_t> labels, int64_t count, uint64_t seed, uint64_t stream) {
  const auto order = by_class(labels, seed, stream);
  std::vector<bool> chosen(labels.size());
  int64_t kept = 0;                  // of the class
  auto due = std::ssize(order) / 2;  // half a distance: the rest of the shares is rounded, not cut off
  for (size_t place = 0; place < order.size(); ++place) {
    const bool last = place + 1 == order.size() || labels[order[place]] != labels[order[place + 1]];
    due += count;
    const bool take = due >= std::ssize(order) && (kept > 0 || !last);
    if (take) due -= std::ssize(order);
    chosen[order[place]] = take;
    kept = last ? 0 : kept + !take;
  }
  return chosen;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Cross-validation: a dataset's training samples in folds, one of which is its validation split.
#pragma once

#include <ddprun/api.h>
#include <ddprun/options.h>

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

// The fold that a run holds out as val. Fold `number` of `count`; a count of 0: no folds.
struct DDPRUN_API Fold {
  int64_t number = 0, count = 0;

  // Reads the options `folds` and `fold`, whose mistakes it reports. `rival` is another option that would make a
  // validation split, such as val_fraction; writing both is one.
  static Fold read(Options& options, const char* rival);
};

// Returns the fold of each sample, 0 <= fold < count, as a pure function of its arguments. The folds have the same
// size, and each as many samples of each class, but for one. `labels` are the samples' classes, or all alike where
// there are none. The samples are shuffled, sorted by class and dealt out in turn. Throws UserError if there are fewer
// samples than folds, or fewer than two folds.
DDPRUN_API std::vector<int64_t> assign_folds(std::span<const int64_t> labels, int64_t count, uint64_t seed);

// Returns which samples to hold out as a split: `count` of them, 0 < count < labels.size(), and of each class its
// share, but for one. A class keeps one sample at least; where too many have no second one, fewer than `count` are held
// out. A pure function of its arguments: the samples are shuffled, sorted by class, and taken at equal distances.
// `stream` separates what the same seed is used for.
DDPRUN_API std::vector<bool> choose_evenly(std::span<const int64_t> labels, int64_t count, uint64_t seed,
                                           uint64_t stream);

}  // namespace ddprun

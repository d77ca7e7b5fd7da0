// SPDX-License-Identifier: MIT
// What the samples of a dataset are like, for `ddprun data`: how many, of which classes, with which values.
#pragma once

#include <ddprun/dataset.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// Of numbers that are finite.
struct NumberRange {
  int64_t count = 0;
  int64_t not_finite = 0;  // besides
  double least = 0, greatest = 0, mean = 0, std = 0;
};

struct SplitSurvey {
  Split split = Split::kTrain;
  int64_t samples = 0;
  int64_t looked_at = 0;              // samples whose values the ranges are of: all, or some that are spread evenly
  std::string input_type;             // "float32", "int64"
  std::vector<int64_t> target_shape;  // of one sample; empty: one number
  std::string target_type;
  NumberRange input, target;       // target: where the task has no classes
  int64_t counted = 0;             // samples that per_class is of
  std::vector<int64_t> per_class;  // of samples, or of symbols of a text; empty where the task has no classes
};

// Of a started dataset. At most so many numbers of inputs of each split are looked at. Splits without samples are left
// out. Throws PluginMistake or PluginFailure for samples that are not as the dataset promises.
std::vector<SplitSurvey> survey_splits(const Dataset& dataset, int64_t most_numbers);

// The class of each sample of a split, by its number, where that is known without the samples; else undefined.
at::Tensor known_labels(const Dataset& dataset, Split split);

// Of so many training samples: how many augment() changes, and how many it changes otherwise in the next epoch.
struct AugmentationSurvey {
  int64_t samples = 0, changed = 0, otherwise = 0;
};
AugmentationSurvey survey_augmentation(const Dataset& dataset, uint64_t seed);

// A copy of the samples as training has them in this epoch.
Batch augmented(const Dataset& dataset, const Batch& batch, const AugmentKey& key);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Describes the samples of a dataset for `ddprun data`: how many, of which classes, with which values.
#pragma once

#include <ddprun/dataset.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct Experiment;

// Statistics of the finite numbers.
struct NumberRange {
  int64_t count = 0;
  int64_t not_finite = 0;  // in addition to those
  double least = 0, greatest = 0, mean = 0, std = 0;
};

// The input, the target or an extra of a split's samples.
struct PartSurvey {
  std::string name, type;      // "input", "float32"
  std::vector<int64_t> shape;  // of one sample; empty: a single number
  NumberRange range;           // of nothing, for targets that are classes
};

struct SplitSurvey {
  Split split = Split::kTrain;
  int64_t samples = 0;
  int64_t looked_at = 0;           // samples that the ranges cover: all, or some that are spread evenly
  std::vector<PartSurvey> parts;   // the input, the target, and the extras
  int64_t counted = 0;             // samples that per_class covers
  std::vector<int64_t> per_class;  // of samples, or of their symbols or pixels; empty if the task has no classes
  std::string scales;              // of train, what doubt_of_scales() says

  const PartSurvey& input() const { return parts.at(0); }
  const PartSurvey& target() const { return parts.at(1); }
  bool is_text() const { return input().type == "int64" && !target().shape.empty(); }  // the next symbol is predicted
};

// How many of the examined training samples augment() changes, and how many it changes differently in the next epoch.
struct AugmentationSurvey {
  int64_t samples = 0, changed = 0, otherwise = 0;
};

struct DataSurvey {
  std::string experiment, dataset;  // their names
  DataSpec spec;
  std::vector<SplitSurvey> splits;  // those with samples
  AugmentationSurvey augmentation;
  DataAccount account = {};
};

// Surveys the started dataset of an experiment, looking at no more than `most_numbers` input numbers per split. Throws
// PluginMistake or PluginFailure for samples that break the dataset's promises.
DataSurvey survey_data(const Dataset& dataset, const Experiment& experiment, int64_t most_numbers);
std::vector<SplitSurvey> survey_splits(const Dataset& dataset, int64_t most_numbers);
AugmentationSurvey survey_augmentation(const Dataset& dataset, uint64_t seed);

// Returns the statistics of each column over training samples of [columns] floats: over 64, or as many more, spread
// evenly, as have `most_numbers`. Nothing for samples of another form.
std::vector<NumberRange> survey_columns(const Dataset& dataset, int64_t most_numbers);

// Returns what is wrong with training samples of [columns] floats whose deviations differ by more than a network learns
// well from, and the cure; empty if nothing is, and for samples of another form. Looks at 64 samples, and at 1,000
// where these raise a doubt: in a few, a column that is mostly 0 seems to have a small deviation.
std::string doubt_of_scales(const Dataset& dataset);

// Returns the class of each sample of a split, if it is known without reading the samples; otherwise undefined.
at::Tensor known_labels(const Dataset& dataset, Split split);

// Returns a copy of the samples as training sees them in this epoch.
Batch augmented(const Dataset& dataset, const Batch& batch, const AugmentKey& key);

}  // namespace ddprun

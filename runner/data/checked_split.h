// SPDX-License-Identifier: MIT
// Checks that a dataset keeps its promises: a batch that does not match spec() would end as an error of a correct
// model, or train on fewer samples than it counts.
#pragma once

#include <ddprun/dataset.h>

#include <cstdint>
#include <span>
#include <string>

namespace ddprun {

// Checks every label and number of a batch, but no values of inputs and extras. Thread-safe; does not own the dataset.
class CheckedSplit {
 public:
  CheckedSplit(const Dataset& dataset, Split split);

  // Return the samples with these numbers, as they are, as an epoch draws them for training, and what it then makes of
  // them. Throw PluginFailure or PluginMistake.
  Batch get(std::span<const int64_t> numbers) const;
  Batch draw(std::span<const int64_t> numbers, const AugmentKey& key) const;
  void augment(Batch& batch, const AugmentKey& key) const;

  // Throws UserError unless each tensor has a row for each of `asked`, the inputs have the promised shape and type, the
  // extras are the promised ones, the labels are existing classes, and index is what was asked for.
  void check(const Batch& batch, std::span<const int64_t> asked) const;

  // Checks the classes that the dataset knows without reading samples.
  void check(const at::Tensor& labels) const;

  // Checks the images that the dataset lends, once for all batches made from them.
  void check(const ImageStore& images) const;

 private:
  void check_labels(std::span<const int64_t> labels) const;

  const Dataset& dataset_;
  Split split_;
  int64_t size_;
  DataSpec spec_;
};

}  // namespace ddprun

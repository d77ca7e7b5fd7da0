// SPDX-License-Identifier: MIT
// A split whose dataset is held to what it has promised: a batch that is not as spec() says would end as an error of a
// model that is right, or train on fewer samples than it counts.
#pragma once

#include <ddprun/dataset.h>

#include <cstdint>
#include <span>

namespace ddprun {

// The checks look at each label and number of a batch, and at no input. Any number of threads; the dataset is the
// caller's.
class CheckedSplit {
 public:
  CheckedSplit(const Dataset& dataset, Split split);

  // The samples of these numbers, and what training makes of such in an epoch. Throws PluginFailure or PluginMistake.
  Batch get(std::span<const int64_t> numbers) const;
  void augment(Batch& batch, const AugmentKey& key) const;

  // Throws UserError unless the batch has a row for each of `asked` in each tensor, the inputs are of the promised
  // shape and type, the labels are classes that there are, and index is what was asked for.
  void check(const Batch& batch, std::span<const int64_t> asked) const;

  // Of the classes that the dataset knows without its samples.
  void check(const at::Tensor& labels) const;

  // Of the images that the dataset lends, once for all batches that are made of them.
  void check(const ImageStore& images) const;

 private:
  void check_input(const at::Tensor& input) const;
  void check_target(const Batch& batch, std::span<const int64_t> asked) const;
  // `numbers`: of the samples whose labels these are, as many of each; none: 0, 1, 2, ...
  void check_labels(std::span<const int64_t> labels, std::span<const int64_t> numbers, bool may_ignore) const;

  const Dataset& dataset_;
  Split split_;
  int64_t size_;
  DataSpec spec_;
};

}  // namespace ddprun

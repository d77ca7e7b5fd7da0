// SPDX-License-Identifier: MIT
// The inputs and targets of one split.
#pragma once

#include "stored_array.h"

#include <string>
#include <vector>

namespace ddprun::arrays {

struct TensorNames {
  std::string input, target;  // in a .safetensors file
};

struct SampleArrays {
  StoredArray input;
  StoredArray target;

  bool has_classes() const { return target.holds_integers(); }
};

// Opens one .safetensors file, or two .npy files: inputs, targets. Both have one row per sample. Throws UserError with
// the file, what was found, what was expected and what to do.
SampleArrays open_samples(const std::vector<std::filesystem::path>& files, const TensorNames& names);

// Throws UserError if the samples of another split have another shape, or its targets another kind, than train's.
void require_alike(const SampleArrays& train, const SampleArrays& other);

}  // namespace ddprun::arrays

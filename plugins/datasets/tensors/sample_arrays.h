// SPDX-License-Identifier: MIT
// The inputs, targets and extras of one split.
#pragma once

#include "stored_array.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::arrays {

struct TensorNames {
  std::string input, target;  // in a .safetensors file
  std::vector<std::string> extras;
};

struct SampleArrays {
  StoredArray input;
  StoredArray target;
  std::vector<StoredArray> extras;  // as TensorNames::extras
  std::vector<std::string> others;  // names of the file's tensors that are none of these

  std::vector<const StoredArray*> all() const {
    std::vector<const StoredArray*> arrays{&input, &target};
    for (const auto& extra : extras) arrays.push_back(&extra);
    return arrays;
  }
  bool has_classes() const { return target.holds_integers(); }
  bool has_class_per_element() const { return has_classes() && target.row_values() > 1; }  // a symbol, a pixel
};

// Opens one .safetensors file, or two .npy files: inputs, targets. All have one row per sample; classes are one for
// each sample, [N], one for each symbol, [N, T] for inputs of [N, T, ...], one for each pixel, [N, H, W] for inputs of
// [N, C, H, W], or for each voxel alike; `says_classes`: of any number for each sample. Extras are float32, int64 or
// bool. Throws UserError with the file, what was found, what was expected and what to do.
SampleArrays open_samples(const std::vector<std::filesystem::path>& files, const TensorNames& names, bool says_classes);

// Opens inputs without targets: a .npy file, or a .safetensors file with the input and the extras. Throws as
// open_samples() does, and if they differ from train's in shape or type.
SampleArrays open_inputs(const std::filesystem::path& file, const TensorNames& names, const SampleArrays& train);

// The same where the training data are gone: of them the shape of a sample is known, and they had no extras.
SampleArrays open_inputs(const std::filesystem::path& file, const TensorNames& names,
                         const std::vector<int64_t>& sample_shape);

// Returns the list of names in a .json file. Throws UserError if it is none.
std::vector<std::string> read_names(const std::filesystem::path& file);

// Throws UserError if the samples of another split have another shape, or its targets or extras another kind, than
// train's.
void require_alike(const SampleArrays& train, const SampleArrays& other);

}  // namespace ddprun::arrays

// SPDX-License-Identifier: MIT
#include "sample_arrays.h"

#include "mapped_file.h"
#include "npy_file.h"
#include "safetensors_file.h"

#include <algorithm>

namespace ddprun::arrays {
namespace {

SampleArrays read(const std::vector<std::filesystem::path>& files, const TensorNames& names) {
  if (files.size() == 2) return {read_npy(map_file(files[0])), read_npy(map_file(files[1]))};
  const auto file = map_file(files.front());
  if (files.front().extension() == ".npy") {
    file.refuse("holds one array; name a list of two files, [input.npy, target.npy]");
  }
  if (const auto ending = files.front().extension().string(); ending == ".csv" || ending == ".tsv" || ending == ".txt")
    file.refuse("is a table of text, which is not read; write its columns with numpy.save or safetensors first");
  auto arrays = read_safetensors(file, {names.input, names.target});
  return {std::move(arrays[0]), std::move(arrays[1])};
}

bool same_sample(const StoredArray& a, const StoredArray& b) {
  return std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end());
}

void require_same_sample(const StoredArray& train, const StoredArray& other) {
  if (same_sample(train, other)) return;
  other.refuse("is " + other.text() + ", but " + train.place + " is " + train.text() +
               ": all splits need samples of one shape");
}

}  // namespace

SampleArrays open_samples(const std::vector<std::filesystem::path>& files, const TensorNames& names) {
  auto samples = read(files, names);
  require_values(samples.input);
  require_values(samples.target);
  if (samples.input.rows() != samples.target.rows()) {
    samples.target.refuse("has " + std::to_string(samples.target.rows()) + " rows, but " + samples.input.place +
                          " has " + std::to_string(samples.input.rows()) + ": each sample needs one of both");
  }
  if (samples.has_classes() && samples.target.row_values() != 1) {
    samples.target.refuse("is " + samples.target.text() +
                          ", expected one class for each sample, or values of a float type; save targets that are "
                          "values, or several labels of 0 and 1, as float32");
  }
  return samples;
}

void require_alike(const SampleArrays& train, const SampleArrays& other) {
  require_same_sample(train.input, other.input);
  if (train.has_classes() != other.has_classes()) {
    other.target.refuse("is " + other.target.text() + ", but " + train.target.place + " is " + train.target.text() +
                        ": integers are classes, floats are values; all splits need the same");
  }
  if (!train.has_classes()) require_same_sample(train.target, other.target);
}

}  // namespace ddprun::arrays

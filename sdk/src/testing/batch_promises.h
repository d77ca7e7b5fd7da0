// SPDX-License-Identifier: MIT
// What a batch of a dataset promises. The program checks each batch by these functions, and <ddprun/testing/dataset.h>
// some of each split.
#pragma once

#include <ddprun/batch.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace ddprun::check {

// Says what is wrong: "get() gives samples of [1, 8], but spec() promises samples of [8]".
struct BrokenPromise : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws BrokenPromise unless each tensor has a row for each of `asked`, the inputs have the promised shape and type,
// the extras are the promised ones, the labels are existing classes, and index is what was asked for. Reads no values
// of inputs and extras.
void require_promises(const DataSpec& spec, const Batch& batch, std::span<const int64_t> asked);

// Do the same for a part of that. `method` gave the extras; `numbers` are those of the samples that the labels belong
// to, equally many labels each; if empty: 0, 1, 2, ...
void require_extras(const DataSpec& spec, const Batch& batch, const char* method);
void require_classes(const DataSpec& spec, std::span<const int64_t> labels, std::span<const int64_t> numbers,
                     bool may_ignore);

// Returns whether the target has a class for each pixel of the pictures, or voxel of the volumes.
bool has_class_per_pixel(const Batch& batch);

// Returns whether it is int64 in one piece, and its numbers then.
bool are_numbers(const at::Tensor& tensor);
std::span<const int64_t> numbers_of(const at::Tensor& tensor);

// Returns the names of extras; "none" if there are none.
template <class Extras>
std::string names_of(const Extras& extras) {
  std::string names;
  for (const auto& [name, extra] : extras) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

}  // namespace ddprun::check

// SPDX-License-Identifier: MIT
// An array as stored in a file: little-endian values in C order, one row per sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::arrays {

// A readable value type with its names.
struct Dtype {
  at::ScalarType type;
  std::string_view word;  // "uint8"
  std::string_view npy;   // "u1", without the byte order; empty if that format has none
};
std::span<const Dtype> known_dtypes();

struct StoredArray {
  std::string place;  // the file, and the tensor's name if it has several; error messages begin with it
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;            // all extents at least 1; the first one counts the samples
  std::shared_ptr<const uint8_t> bytes;  // not aligned; keeps the file mapped

  int64_t rows() const { return shape[0]; }
  int64_t row_values() const;
  uint64_t size_in_bytes() const { return static_cast<uint64_t>(rows() * row_values()) * c10::elementSize(dtype); }
  bool holds_integers() const { return at::isIntegralType(dtype, /*includeBool=*/true); }

  // Returns "[60000, 28, 28] uint8".
  std::string text() const;

  // Throws UserError with the place and `flaw`.
  [[noreturn]] void refuse(const std::string& flaw) const;
};

// Throws UserError if the array has no samples, or samples without a value.
void require_values(const StoredArray& array);

// Maps each value of a row to value * factor + offset.
struct Affine {
  double factor = 1;
  double offset = 0;
};

// Writes row_values() numbers to `out`. `changes` are one for all of them, or one for each column or channel, the first
// dimension of a row.
void copy_row(const StoredArray& array, int64_t row, std::span<const Affine> changes, float* out);

// Writes row_values() numbers to `out`; the array holds integers.
void copy_integers(const StoredArray& array, int64_t row, int64_t* out);

// Writes row_values() numbers of the array's own type to `out`.
void copy_unchanged(const StoredArray& array, int64_t row, void* out);

// Returns all values of an array of integers.
std::vector<int64_t> to_integers(const StoredArray& array);

}  // namespace ddprun::arrays

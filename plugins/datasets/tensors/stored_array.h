// SPDX-License-Identifier: MIT
// An array as it lies in a file: little-endian values in C order, one row for each sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::arrays {

// A type of values that can be read, by its names; empty where a format has none for it.
struct Dtype {
  at::ScalarType type;
  std::string_view word;         // "uint8"
  std::string_view safetensors;  // "U8"
  std::string_view npy;          // "u1", without the byte order
};
std::span<const Dtype> known_dtypes();

struct StoredArray {
  std::string place;  // the file, and the tensor's name where it has several: what error texts begin with
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;            // all extents at least 1, the first one counts the samples
  std::shared_ptr<const uint8_t> bytes;  // not aligned; keeps the file mapped

  int64_t rows() const { return shape[0]; }
  int64_t row_values() const;
  bool holds_integers() const { return at::isIntegralType(dtype, /*includeBool=*/true); }

  // "[60000, 28, 28] uint8".
  std::string text() const;

  // Throws UserError: the place, then `flaw`.
  [[noreturn]] void refuse(const std::string& flaw) const;
};

// The bytes that values of this type and shape take; nothing where no 64-bit number counts them.
std::optional<uint64_t> byte_count(const std::vector<int64_t>& shape, at::ScalarType dtype);

// Throws UserError where the array has no samples, or samples without a value.
void require_values(const StoredArray& array);

// value * factor + offset, for each value of a row.
struct Affine {
  double factor = 1;
  double offset = 0;
};

// Writes row_values() numbers to `out`.
void copy_row(const StoredArray& array, int64_t row, const Affine& change, float* out);

// The values of an array of integers, all of them.
std::vector<int64_t> to_integers(const StoredArray& array);

}  // namespace ddprun::arrays

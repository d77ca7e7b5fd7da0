// SPDX-License-Identifier: MIT
#include "stored_array.h"

#include <ddprun/error.h>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <type_traits>

namespace ddprun::arrays {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read as they lie in the file");

constexpr std::array kDtypes = {
    Dtype{at::kDouble, "float64", "f8"},  Dtype{at::kFloat, "float32", "f4"}, Dtype{at::kHalf, "float16", "f2"},
    Dtype{at::kBFloat16, "bfloat16", ""}, Dtype{at::kLong, "int64", "i8"},    Dtype{at::kInt, "int32", "i4"},
    Dtype{at::kShort, "int16", "i2"},     Dtype{at::kChar, "int8", "i1"},     Dtype{at::kByte, "uint8", "u1"},
    Dtype{at::kBool, "bool", "b1"},
};

// Calls `use` with a value of the C++ type of `dtype`.
template <class Use>
void with_type(at::ScalarType dtype, Use&& use) {
  switch (dtype) {
    case at::kDouble: return use(double{});
    case at::kFloat: return use(float{});
    case at::kHalf: return use(c10::Half{});
    case at::kBFloat16: return use(c10::BFloat16{});
    case at::kLong: return use(int64_t{});
    case at::kInt: return use(int32_t{});
    case at::kShort: return use(int16_t{});
    case at::kChar: return use(int8_t{});
    case at::kByte: return use(uint8_t{});
    case at::kBool: return use(bool{});
    default: throw std::logic_error("an array of a type that no reader gives");
  }
}

template <class T>
T value_at(const uint8_t* bytes, int64_t i) {
  if constexpr (std::is_same_v<T, bool>) return bytes[i] != 0;
  T value;
  std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Calls `use` with the place and the value of each number of a row.
template <class Use>
void each_of_row(const StoredArray& array, int64_t row, Use&& use) {
  with_type(array.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = array.row_values();
    const auto* bytes = array.bytes.get() + row * count * static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < count; ++i) use(i, value_at<T>(bytes, i));
  });
}

}  // namespace

std::span<const Dtype> known_dtypes() { return kDtypes; }

int64_t StoredArray::row_values() const {
  int64_t values = 1;
  for (size_t i = 1; i < shape.size(); ++i) values *= shape[i];
  return values;
}

std::string StoredArray::text() const {
  std::ostringstream text;
  text << at::IntArrayRef(shape) << " " << std::ranges::find(kDtypes, dtype, &Dtype::type)->word;
  return text.str();
}

void StoredArray::refuse(const std::string& flaw) const { throw UserError(place + ": " + flaw); }

void require_values(const StoredArray& array) {
  if (array.shape.empty())
    array.refuse("holds a single number, expected an array whose first dimension is the samples");
  for (size_t i = 0; i < array.shape.size(); ++i) {
    if (array.shape[i] > 0) continue;
    array.refuse("is " + array.text() + (i == 0 ? ": no samples" : ": samples without a value") +
                 ", expected at least one; write it again");
  }
}

namespace {

[[noreturn]] void refuse_large(const StoredArray& array, int64_t row, double number) {
  std::ostringstream flaw;
  flaw << "row " << row << " has " << number << ", which is beyond float32, of at most 3.4e+38; scale it before saving";
  array.refuse(flaw.str());
}

}  // namespace

// A number that is infinite in the file stays so.
void copy_row(const StoredArray& array, int64_t row, std::span<const Affine> changes, float* out) {
  with_type(array.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto count = array.row_values(), each = count / std::ssize(changes);
    const auto* bytes = array.bytes.get() + row * count * static_cast<int64_t>(sizeof(T));
    for (const auto& [factor, offset] : changes) {
      for (int64_t i = 0; i < each; ++i, ++out, bytes += sizeof(T)) {
        const auto value = static_cast<double>(value_at<T>(bytes, 0)), number = value * factor + offset;
        *out = static_cast<float>(number);
        if (std::isinf(*out) && !std::isinf(value)) refuse_large(array, row, number);
      }
    }
  });
}

void copy_integers(const StoredArray& array, int64_t row, int64_t* out) {
  each_of_row(array, row, [&](int64_t i, auto value) { out[i] = static_cast<int64_t>(value); });
}

void copy_unchanged(const StoredArray& array, int64_t row, void* out) {
  each_of_row(array, row, [&](int64_t i, auto value) { static_cast<decltype(value)*>(out)[i] = value; });
}

std::vector<int64_t> to_integers(const StoredArray& array) {
  std::vector<int64_t> values(static_cast<size_t>(array.rows() * array.row_values()));
  with_type(array.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int64_t>(value_at<T>(array.bytes.get(), static_cast<int64_t>(i)));
    }
  });
  return values;
}

}  // namespace ddprun::arrays

// SPDX-License-Identifier: MIT
// The number types of NCCL and what reductions do with them, element by element.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pretend {

// Rounds to the nearest, ties to even, as CUDA's __float2bfloat16 does.
struct Bfloat16 {
  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  uint16_t bits = 0;
};

// Calls `work` with a value of the type, or returns false: float8 is not pretended.
template <class Work>
bool with_type(ncclDataType_t type, const Work& work) {
  switch (type) {
    case ncclInt8: work(int8_t{}); return true;
    case ncclUint8: work(uint8_t{}); return true;
    case ncclInt32: work(int32_t{}); return true;
    case ncclUint32: work(uint32_t{}); return true;
    case ncclInt64: work(int64_t{}); return true;
    case ncclUint64: work(uint64_t{}); return true;
    case ncclFloat16: work(_Float16{}); return true;
    case ncclFloat32: work(float{}); return true;
    case ncclFloat64: work(double{}); return true;
    case ncclBfloat16: work(Bfloat16{}); return true;
    default: return false;
  }
}

// Returns 0 for a type that is not pretended.
inline size_t size_of(ncclDataType_t type) {
  size_t size = 0;
  with_type(type, [&](auto one) { size = sizeof one; });
  return size;
}

// Halves are computed in float, and rounded after each operation.
template <class T>
using Computed = std::conditional_t<sizeof(T) == 2, float, T>;

template <class T, class Operation>
void combine(T* into, const T* with, size_t count, const Operation& operation) {
  using Number = Computed<T>;
  for (size_t i = 0; i < count; ++i)
    into[i] = T(static_cast<Number>(operation(static_cast<Number>(into[i]), static_cast<Number>(with[i]))));
}

// Adds, multiplies ... `with` to `into`. An average is a sum here, which the caller divides.
inline void reduce(ncclDataType_t type, ncclRedOp_t operation, void* into, const void* with, size_t count) {
  with_type(type, [&](auto one) {
    using T = decltype(one);
    auto* to = static_cast<T*>(into);
    const auto* from = static_cast<const T*>(with);
    switch (operation) {
      case ncclProd: return combine(to, from, count, [](auto a, auto b) { return a * b; });
      case ncclMax: return combine(to, from, count, [](auto a, auto b) { return std::max(a, b); });
      case ncclMin: return combine(to, from, count, [](auto a, auto b) { return std::min(a, b); });
      default: return combine(to, from, count, [](auto a, auto b) { return a + b; });
    }
  });
}

inline void scale(ncclDataType_t type, void* values, size_t count, double factor) {
  with_type(type, [&](auto one) {
    using T = decltype(one);
    using Number = std::conditional_t<std::is_integral_v<T>, double, Computed<T>>;
    auto* all = static_cast<T*>(values);
    for (size_t i = 0; i < count; ++i) {
      const auto scaled = static_cast<Number>(static_cast<Computed<T>>(all[i])) * static_cast<Number>(factor);
      all[i] = T(static_cast<Computed<T>>(scaled));
    }
  });
}

// Reads one number, of a type that with_type() knows.
inline double number_at(ncclDataType_t type, const void* place) {
  double number = 0;
  with_type(type, [&](auto one) {
    number = static_cast<double>(static_cast<Computed<decltype(one)>>(*static_cast<const decltype(one)*>(place)));
  });
  return number;
}

}  // namespace pretend

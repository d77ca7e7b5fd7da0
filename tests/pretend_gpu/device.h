// SPDX-License-Identifier: MIT
// What CUDA C++ needs to be compiled for the host. A block has one thread here, so a kernel must stride by blockDim.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

struct PretendPlace {
  unsigned x = 0, y = 0, z = 0;
};
inline thread_local PretendPlace blockIdx, threadIdx;
inline thread_local PretendPlace blockDim{1, 1, 1}, gridDim{1, 1, 1};

extern "C" void* pretend_shadow(const void* address);  // libcudart.so.13's

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __syncthreads()
template <class Number>
Number atomicAdd(Number* to, Number value) {  // blocks run one after the other
  return std::exchange(*to, *to + value);
}
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }

inline float ddprun_half_as_float(unsigned short bits) {
  const int exponent = bits >> 10 & 31, digits = bits & 1023;
  const float size = exponent == 31 ? (digits ? NAN : INFINITY)
                                    : std::ldexp(static_cast<float>(exponent ? digits + 1024 : digits),
                                                 (exponent ? exponent : 1) - 25);
  return bits & 0x8000 ? -size : size;
}

inline unsigned short ddprun_float_as_half(float value) {
  const auto sign = static_cast<unsigned short>(std::signbit(value) ? 0x8000 : 0);
  if (value != value) return 0x7E00;
  if (std::fabs(value) >= 65520) return sign | 0x7C00;  // the first that rounds to infinity
  const int exponent = value == 0 ? -14 : std::max(std::ilogb(value), -14);
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(std::fabs(value), 10 - exponent)));
  return static_cast<unsigned short>(sign | (((exponent + 14) << 10) + digits));
}

namespace pretend {

// Makes the device's pointers those of the host: an argument itself, or those that a struct has as its `place`.
template <class Value>
void translate(Value& value) {
  if constexpr (std::is_pointer_v<Value>) value = static_cast<Value>(pretend_shadow(value));
  if constexpr (requires { value.place; }) {
    for (auto& place : value.place) place = pretend_shadow(place);
  }
}

// Copies the arguments, as a launch does.
template <class... Arguments>
std::function<void(unsigned, unsigned, unsigned)>* bind(void (*kernel)(Arguments...), void** given) {
  size_t i = 0;
  std::tuple<std::decay_t<Arguments>...> values{*static_cast<std::decay_t<Arguments>*>(given[i++])...};
  std::apply([](auto&... each) { (translate(each), ...); }, values);
  return new std::function<void(unsigned, unsigned, unsigned)>([kernel, values](unsigned x, unsigned y, unsigned z) {
    gridDim = {x, y, z};
    for (blockIdx.z = 0; blockIdx.z < z; ++blockIdx.z)
      for (blockIdx.y = 0; blockIdx.y < y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < x; ++blockIdx.x) std::apply(kernel, values);
  });
}

}  // namespace pretend

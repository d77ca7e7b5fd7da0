// SPDX-License-Identifier: MIT
// Vectors of sixteen values, by the compiler's vector extension.
#pragma once

#include <cstdint>

namespace ddprun {

using Bf16Bits = uint16_t;

inline constexpr int64_t kLanes = 16;
template <class T>
struct LanesOf {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <class T>
using Lanes = typename LanesOf<T>::type;
using Floats = Lanes<float>;
using Ints = Lanes<int32_t>;  // the result of a comparison: -1 if true

}  // namespace ddprun

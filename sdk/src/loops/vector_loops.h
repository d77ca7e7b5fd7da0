// SPDX-License-Identifier: MIT
// Loops over values in memory in steps of 16, compiled for each vector width that processors have and chosen at run
// time. Values are float32, or bfloat16 as its 16 bits; computation is in float32.
//
// Define DDPRUN_LOOPS before including this: it names a file of loops, classes with a static function run(). This
// header includes that file in the namespaces sse2 (which also serves processors other than x86), avx2 and avx512,
// after its helpers load(), store() and so on. DDPRUN_RUN_LOOP(Class, arguments...) runs the one for this processor.
#pragma once

#include "lanes.h"

#include <bit>
#include <cstring>

// How vectors are passed differs between processors, but no function of the loops is called from outside.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace ddprun {

enum class VectorKind { kSse2, kAvx2, kAvx512 };

inline VectorKind vector_kind() {
#ifdef __x86_64__
  static const auto kKind = [] {
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return avx512 ? VectorKind::kAvx512 : avx2 ? VectorKind::kAvx2 : VectorKind::kSse2;
  }();
  return kKind;
#else
  return VectorKind::kSse2;
#endif
}

}  // namespace ddprun

namespace ddprun::sse2 {
#include "lanes.inc"
#include DDPRUN_LOOPS
}  // namespace ddprun::sse2

#ifdef __x86_64__

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace ddprun::avx2 {
#include "lanes.inc"
#include DDPRUN_LOOPS
}  // namespace ddprun::avx2
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#endif
namespace ddprun::avx512 {
#include "lanes.inc"
#include DDPRUN_LOOPS
}  // namespace ddprun::avx512
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#define DDPRUN_RUN_LOOP(Loop, ...)                                   \
  switch (vector_kind()) {                                           \
    case VectorKind::kAvx512: avx512::Loop::run(__VA_ARGS__); break; \
    case VectorKind::kAvx2: avx2::Loop::run(__VA_ARGS__); break;     \
    case VectorKind::kSse2: sse2::Loop::run(__VA_ARGS__);            \
  }

#else
#define DDPRUN_RUN_LOOP(Loop, ...) sse2::Loop::run(__VA_ARGS__)
#endif

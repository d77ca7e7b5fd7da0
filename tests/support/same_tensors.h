// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/safetensors.h>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

namespace ddprun {

inline bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && at::equal(a, b);
}

inline ::testing::AssertionResult same(const TensorDict& a, const TensorDict& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " tensors and " << b.size();
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return ::testing::AssertionFailure() << name << " is missing";
    if (!same(tensor, other->second)) return ::testing::AssertionFailure() << name << " differs";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace ddprun

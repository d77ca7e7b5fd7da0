// SPDX-License-Identifier: MIT
// Digests of tensors' bits, to compare what should be equal: cheap, no proof against an adversary.
//
// A digest is the sum over the 64-bit words of a tensor's memory of mix(word + i * golden ratio), so any order of
// adding, on any number of threads or a GPU, gives the same. mix() is one-to-one: tensors that differ in one word
// alone always have different digests.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// Returns the digest of each tensor, wherever it lies; of its elements in the order of memory. Undefined ones have 0.
// Waits for a GPU once.
std::vector<uint64_t> digests_of(const std::vector<at::Tensor>& tensors);

// Returns one digest of several, which depends on their order.
uint64_t digest_of(const std::vector<uint64_t>& digests);

}  // namespace ddprun

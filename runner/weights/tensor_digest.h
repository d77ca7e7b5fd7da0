// SPDX-License-Identifier: MIT
// Digests of tensors' bits, to compare what should be equal: cheap, no proof against an adversary.
//
// A digest is the sum over 64-bit words of mix(word + place * golden ratio), so any order of adding, on any number of
// threads or a GPU, gives the same. mix() is one-to-one: what differs in one word alone always has another digest. The
// words are those of the tensors' memory, each filled up with zeros to a whole word. Their places follow one another
// or, for tensors with names, begin where a hash of the name says: such digests of several sets can be added up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// Returns the digest of these tensors, wherever they lie, in their order; undefined ones have no words. Those on a GPU
// have places of their own, from 0 on, so that few kernels do; it is waited for once.
uint64_t digest_of(const std::vector<at::Tensor>& tensors);

// Returns the digest of tensors that their names distinguish, in any order; names and tensors belong together.
uint64_t digest_of(const std::vector<std::string>& names, const std::vector<at::Tensor>& tensors);

}  // namespace ddprun

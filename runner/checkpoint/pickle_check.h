// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun {

inline constexpr uint64_t kLargestPickle = 100'000'000;  // as for the weights' header; a tensor needs 0.2 kB
inline constexpr int kMostPickleDepth = 8;               // a dictionary of dictionaries of tensors has 4

// Checks a pickle before LibTorch reads it, since LibTorch recurses once per nesting level and allocates room for as
// many values as the pickle claims. Throws std::runtime_error for one that nests deeper, is cut off, or contains what
// neither we nor torch.save() write for dictionaries of tensors.
void check_pickle(std::string_view pickle);

}  // namespace ddprun

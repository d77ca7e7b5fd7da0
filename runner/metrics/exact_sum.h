// SPDX-License-Identifier: MIT
// A sum of doubles that is rounded once, when it is read: it does not depend on the order of the numbers, nor on how
// they are spread over ranks. It is the small superaccumulator of Radford M. Neal ("Fast exact summation using small
// and large superaccumulators", 2015, arXiv:1505.05571).
#pragma once

#include "comm/communicator.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

class ExactSum {
 public:
  // A sum as integers: the sums of several are added by adding them one by one, up to 2^30 of them.
  static constexpr size_t kWords = 70;
  using Words = std::array<int64_t, kWords>;

  ExactSum() = default;
  explicit ExactSum(std::span<const int64_t, kWords> words);

  void add(double value);
  void add(const ExactSum& other);

  // Returns the double that is nearest to the sum, of two the even one. NaN and infinity as adding them gives.
  double value() const;

  const Words& words();

 private:
  static constexpr size_t kChunks = 67;  // of 32 bits each, the least significant first
  static constexpr size_t kNan = kChunks, kInfinity = kChunks + 1, kMinusInfinity = kChunks + 2;

  void carry();

  Words words_{};  // chunks that overlap until they are carried, then how often each number that is none was added
  int64_t uncarried_ = 0;  // additions since then
};

// Returns sums as one tensor, [sums, ExactSum::kWords] int64: those of ranks are added by adding their tensors.
at::Tensor words_of(std::vector<ExactSum> sums);

// Returns the sums of such a tensor.
std::vector<ExactSum> sums_of(const at::Tensor& words);

// Returns what the ranks add up, as all that have anything describe it; empty if none has. `mine` is empty on a rank
// that has nothing, and need not know what there is. Throws UserError, `problem` and both descriptions, where two
// differ. Collective.
std::string agreed(const std::string& mine, const std::string& problem, Communicator& communicator);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// MNIST's files, raw or packed.
#include "fuzz/fuzz_target.h"
#include "idx_file.h"

#include <numeric>

namespace ddprun {

void feed_idx(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto kind = bytes[0] % 2 == 0 ? idx::IdxKind::kImages : idx::IdxKind::kLabels;
  const auto file = idx::read_idx(fuzz::as_file(bytes.substr(1)), kind);
  size_t values = 1;
  for (const auto extent : file.shape) values *= static_cast<size_t>(extent);
  volatile auto sum = std::accumulate(file.bytes.get(), file.bytes.get() + values, uint64_t{0});
  (void)sum;
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(idx, feed_idx)

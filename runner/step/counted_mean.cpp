// SPDX-License-Identifier: MIT
#include "step/counted_mean.h"

#include "plugin_host/plugin_call.h"

#include <ATen/ATen.h>

namespace ddprun {

void only_some_count() {
  throw PluginMistake({"model",
                       "some steps say how many samples count (Step::counted) and others do not: give it in every step "
                       "or in none"});
}

// Returns whether a part is the global batch.
bool CountedMean::is_whole() const {
  if (cut_.shards > 0) return cut_.shards == 1;
  return cut_.micro_batches == 1 && (cut_.alone || !communicator_.is_distributed());
}

at::Tensor CountedMean::weight(const at::Tensor& counted, bool borrowed) {
  if (is_whole()) return {};
  const auto count = borrowed ? at::zeros({}, counted.options().dtype(at::kDouble)) : counted.to(at::kDouble);
  if (!total_.defined()) {
    const bool is_typical = cut_.shards == 0 || communicator_.world().rank == 0;  // rank 0 has the first shard
    expected_ = is_typical ? count.clone() : at::zeros_like(count);
    sum(expected_);
    expected_ = (expected_ * (cut_.shards > 0 ? cut_.shards : cut_.micro_batches)).clamp_min(1);
  }
  total_ = total_.defined() ? total_ + count : count;
  const bool is_averaged = !cut_.alone && cut_.shards == 0;
  const int64_t world = is_averaged ? communicator_.world().size : 1;
  return (count * world / expected_).to(at::kFloat);
}

void CountedMean::correct(const std::vector<at::Tensor>& gradients) {
  const bool known_before = cut_.shards == 0 && cut_.micro_batches == 1;
  if (!total_.defined() || known_before || gradients.empty()) return;
  auto total = total_.clone();
  sum(total);
  const auto factor = (expected_ / total.clamp_min(1)).to(at::kFloat);
  at::_foreach_mul_(gradients, factor);
}

void CountedMean::sum(at::Tensor& numbers) const {
  if (!cut_.alone) communicator_.sum(numbers);
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "train/counted_mean.h"

#include "plugin_host/plugin_call.h"

#include <ATen/ATen.h>

namespace ddprun {

void only_some_count() {
  throw PluginMistake({"model",
                       "some steps say how many samples count (Step::counted) and others do not: give it in every step "
                       "or in none"});
}

at::Tensor CountedMean::weight(const at::Tensor& counted, bool borrowed) {
  if (micro_batches_ == 1 && (alone_ || !communicator_.is_distributed())) return {};
  const auto count = borrowed ? at::zeros({}, counted.options().dtype(at::kDouble)) : counted.to(at::kDouble);
  if (!total_.defined()) {
    expected_ = count.clone();
    sum(expected_);
    expected_ = (expected_ * micro_batches_).clamp_min(1);
  }
  total_ = total_.defined() ? total_ + count : count;
  const int64_t world = alone_ ? 1 : communicator_.world().size;
  return (count * world / expected_).to(at::kFloat);
}

void CountedMean::correct(const std::vector<at::Tensor>& gradients) {
  if (!total_.defined() || micro_batches_ == 1 || gradients.empty()) return;
  auto total = total_.clone();
  sum(total);
  const auto factor = (expected_ / total.clamp_min(1)).to(at::kFloat);
  at::_foreach_mul_(gradients, factor);
}

void CountedMean::sum(at::Tensor& numbers) const {
  if (!alone_) communicator_.sum(numbers);
}

}  // namespace ddprun

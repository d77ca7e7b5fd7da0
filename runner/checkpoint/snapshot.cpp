// SPDX-License-Identifier: MIT
#include "checkpoint/snapshot.h"

#include <ATen/ATen.h>

namespace ddprun {
namespace {

bool fits(const at::Tensor& place, const at::Tensor& tensor) {
  return place.sizes() == tensor.sizes() && place.strides() == tensor.strides() && place.dtype() == tensor.dtype();
}

void copy_into(TensorDict& places, const TensorDict& live) {
  std::erase_if(places, [&](const auto& place) { return !live.contains(place.first); });
  for (const auto& [name, tensor] : live) {
    auto& place = places[name];
    const auto source = tensor.detach();
    if (!place.defined() || !fits(place, source)) place = at::empty_like(source, source.options().device(at::kCPU));
    place.copy_(source);
  }
}

}  // namespace

Checkpoint Snapshot::take(const Checkpoint& live) {
  copy_into(model_, live.model);
  copy_into(average_, live.average);
  copy_into(optimizer_, live.optimizer);
  return {.step = live.step,
          .model = model_,
          .average = average_,
          .optimizer = optimizer_,
          .progress = live.progress,
          .ranks = live.ranks};
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "step/step_parts.h"

#include "data/sample_order.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include <utility>

namespace ddprun {
namespace {

std::vector<at::Tensor> clones_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> clones;
  for (const auto& tensor : tensors) clones.push_back(tensor.clone());
  return clones;
}

std::vector<BatchPart> micro_batches(const TrainBatch& batch, int64_t ranks, int64_t micro_batch) {
  const int64_t count = micro_batches_of(batch.global_samples, ranks, micro_batch);
  const auto made = batch.made();
  const int64_t own = batch.weight > 0 ? made.size() : 0;
  std::vector<BatchPart> parts;
  for (int64_t i = 0; i < count; ++i) {
    const auto slice = part_of(own, i, count);
    const double share = own == 0 ? 0 : static_cast<double>(slice.size()) / static_cast<double>(own);
    parts.push_back({.batch = part_of_batch(made, slice.size() > 0 ? slice : Slice{0, 1}),
                     .weight = batch.weight * share,
                     .samples = slice.size(),
                     .first = i == 0,
                     .last = i + 1 == count});
  }
  return parts;
}

}  // namespace

std::vector<BatchPart> parts_of(const TrainBatch& batch, int64_t ranks, int64_t micro_batch) {
  if (batch.shards.empty()) return micro_batches(batch, ranks, micro_batch);
  std::vector<BatchPart> parts;
  for (const auto& shard : batch.shards) {
    parts.push_back({.batch = shard.batch,
                     .weight = shard.weight,
                     .samples = batch.weight > 0 ? shard.batch.size() : 0,
                     .shard = shard.number,
                     .first = &shard == &batch.shards.front(),
                     .last = &shard == &batch.shards.back()});
  }
  return parts;
}

BufferGuard::BufferGuard(const std::vector<at::Tensor>& buffers, bool enabled) : buffers_(buffers) {
  if (enabled) kept_ = clones_of(buffers);
}

void BufferGuard::restore_where(const at::Tensor& skipped) const {
  for (size_t i = 0; skipped.defined() && i < kept_.size(); ++i)
    buffers_[i].copy_(at::where(skipped, kept_[i], buffers_[i]));
}

ShardBuffers::ShardBuffers(const std::vector<at::Tensor>& buffers, bool enabled)
    : buffers_(buffers), enabled_(enabled) {
  if (enabled_) kept_ = clones_of(buffers);
}

void ShardBuffers::before_part() {
  if (std::exchange(changed_, true)) put(kept_);
}

void ShardBuffers::after_shard(int64_t number) {
  if (enabled_ && number == 0) left_ = clones_of(buffers_);
}

void ShardBuffers::put(const std::vector<at::Tensor>& values) const {
  const torch::NoGradGuard no_gradients;
  if (!values.empty()) at::_foreach_copy_(buffers_, values);
}

}  // namespace ddprun

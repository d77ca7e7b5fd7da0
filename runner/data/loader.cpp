// SPDX-License-Identifier: MIT
#include "data/loader.h"

#include "base/log.h"
#include "data/sampling.h"
#include "plugin_host/plugin_call.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>

namespace ddprun {
namespace {

at::Tensor tensor_of(std::span<const int64_t> numbers) {
  return at::tensor(at::ArrayRef<int64_t>(numbers.data(), numbers.size()), at::kLong);
}

// Makes the part of a batch that needs no device: all of it, or only its numbers if the images are on a GPU.
Batch made_ahead(const ImageBatcher& images, std::span<const int64_t> numbers, const AugmentKey* key) {
  const auto wanted = tensor_of(numbers);
  return images.device().is_cuda() ? Batch{.index = wanted} : images.make(wanted, key);
}

bool is_resident(const std::shared_ptr<const ImageBatcher>& images) { return images && images->device().is_cuda(); }

// From page-locked memory, the copy to a GPU does not block the host.
Batch pinned(Batch batch, c10::Device device) {
  if (!device.is_cuda()) return batch;
  if (!batch.input.defined()) return batch;
  batch.replace_tensors([](const at::Tensor& tensor) { return tensor.pin_memory(); });
  return batch;
}

// LibTorch's kernels may round otherwise where a tensor begins elsewhere than their vectors do.
at::Tensor aligned(const at::Tensor& tensor) {
  constexpr uintptr_t kAlignment = 64;  // of LibTorch's own memory
  const bool lies_well = !tensor.is_cpu() || reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0;
  return lies_well ? tensor : tensor.clone();
}

}  // namespace

Batch part_of_batch(const Batch& batch, Slice slice) {
  const auto rows = [&](const at::Tensor& tensor) { return tensor.narrow(0, slice.begin, slice.size()); };
  auto part = batch;
  part.replace_tensors(rows);
  if (part.index.defined()) part.index = rows(part.index);
  return part;
}

int64_t TrainBatch::size() const {
  if (!shards.empty()) return shards.front().batch.size();
  return request.defined() ? request.numel() - 1 : batch.size();
}

Batch TrainBatch::made() const {
  if (!shards.empty()) return shards.front().batch;
  if (!images) return batch;
  auto made = images->make_of(request.to(images->device(), /*non_blocking=*/true), &key);
  made.index = batch.index;
  return made;
}

std::vector<std::pair<std::string, at::Tensor>> TrainBatch::tensors() const {
  if (images) return {{"request", request}};
  auto all = batch.tensors();
  for (const auto& shard : shards) std::ranges::move(shard.batch.tensors(), std::back_inserter(all));
  return all;
}

void TrainBatch::replace_tensors(const std::function<at::Tensor(const at::Tensor&)>& by) {
  batch.replace_tensors(by);
  for (auto& shard : shards) shard.batch.replace_tensors(by);
}

StepPlan step_plan(const TrainerConfig& config, int64_t samples) {
  const auto limit = config.overfit_batches > 0 ? Limit{.batches = config.overfit_batches} : config.train_batches;
  return {samples, config.global_batch, limit, config.shards};
}

TrainLoader::TrainLoader(std::shared_ptr<const Dataset> dataset, const TrainerConfig& config, uint64_t seed,
                         World world, c10::Device device, int64_t first_step,
                         std::shared_ptr<const ImageBatcher> images, LeftOut left_out)
    : dataset_(std::move(dataset)),
      left_out_(std::move(left_out)),
      plan_(step_plan(config, dataset_->size(Split::kTrain))),
      seed_(seed),
      epochs_(training_order(*dataset_, config, seed)),
      world_(world),
      device_(device),
      images_(std::move(images)),
      split_(*dataset_, Split::kTrain),
      copies_(device),
      mixing_(config, seed, in_plugin({"dataset", "spec"}, [&] { return dataset_->spec(); })),
      prefetcher_(std::make_unique<Prefetcher<TrainBatch>>(first_step, std::numeric_limits<int64_t>::max(),
                                                           config.prefetch_threads, config.prefetch_batches,
                                                           [this](int64_t step) { return load(step); })) {}

std::optional<TrainBatch> TrainLoader::next_unless(const std::function<bool()>& give_up) {
  auto made = prefetcher_->next_unless(give_up);
  if (!made) return std::nullopt;
  auto& item = *made;
  if (item.images) return made;
  if (item.shards.empty()) item.batch = finished(std::move(item.batch), item.key, item.step);
  for (auto& shard : item.shards) {
    shard.batch = finished(std::move(shard.batch), item.key, item.step);
    shard.batch.replace_tensors(aligned);
  }
  return made;
}

// Does what is left for the thread that trains: the copy to the device, and what is computed there.
Batch TrainLoader::finished(Batch batch, const AugmentKey& key, int64_t step) {
  if (is_resident(images_)) {
    batch = images_->make(batch.index, &key);
  } else {
    batch = copies_.copied(std::move(batch));
    if (!images_) split_.augment(batch, key);
  }
  return mixing_.mixed(batch, step);
}

TrainBatch TrainLoader::load(int64_t step) {
  const int64_t epoch = step / plan_.steps_per_epoch();
  const auto samples = samples_of(step);
  const Slice whole{0, std::ssize(samples)};
  auto mine = plan_.rank_slice(whole, world_.rank, world_.size);
  const auto share = static_cast<double>(mine.size() * world_.size) / static_cast<double>(whole.size());
  if (mine.size() == 0) mine = {whole.begin, whole.begin + 1};
  TrainBatch item{.epoch = epoch,
                  .global_samples = whole.size(),
                  .weight = share,
                  .step = step,
                  .key = {.seed = seed_, .epoch = epoch}};
  if (plan_.shards() > 0) {
    item.batch.index = tensor_of(std::span(samples).subspan(mine.begin, mine.size()));
    load_shards(item, samples);
    return item;
  }
  item.batch = load_batch(samples, mine, item.key);
  if (images_ && !mixing_.enabled() && images_->makes_of_requests(&item.key)) {
    item.images = images_;
    item.request = images_->request(item.batch.index, &item.key);
  }
  return item;
}

// Loads each shard by itself, so that nothing of it depends on the others that this rank has.
void TrainLoader::load_shards(TrainBatch& item, std::span<const int64_t> samples) const {
  const Slice whole{0, std::ssize(samples)};
  const auto own = part_of(plan_.shards(), world_.rank, world_.size);
  const auto add = [&](int64_t number) {
    const auto slice = plan_.shard_slice(whole, number);
    if (slice.size() == 0) return;
    item.shards.push_back({.number = number,
                           .batch = load_batch(samples, slice, item.key),
                           .weight = static_cast<double>(slice.size()) / static_cast<double>(whole.size())});
  };
  for (auto number = own.begin; number < own.end; ++number) add(number);
  if (item.shards.empty()) add(0);
}

// Loads a part of a step's samples.
Batch TrainLoader::load_batch(std::span<const int64_t> samples, Slice part, const AugmentKey& key) const {
  const auto own = samples.subspan(part.begin, part.size());
  std::vector<int64_t> numbers(own.begin(), own.end());
  if (mixing_.enabled())  // the sample before the first, which it is mixed with
    numbers.insert(numbers.begin(), part.begin > 0 ? samples[part.begin - 1] : samples.back());
  return pinned(images_ ? made_ahead(*images_, numbers, &key) : split_.draw(numbers, key), device_);
}

// Returns the samples of all ranks in a step.
std::vector<int64_t> TrainLoader::samples_of(int64_t step) {
  const auto whole = plan_.global_slice(step % plan_.steps_per_epoch());
  const auto order = order_of(step / plan_.steps_per_epoch());
  std::vector<int64_t> samples(order->begin() + whole.begin, order->begin() + whole.end);
  if (step != left_out_.step) return samples;
  for (const auto sample : left_out_.samples) {
    if (std::erase(samples, sample) == 0)
      throw UserError(
          log::text("sample ", sample, " is not in the batch of step ", step + 1, ", and cannot be left out"));
  }
  if (samples.empty()) throw UserError(log::text("no sample of step ", step + 1, " is left"));
  return samples;
}

std::shared_ptr<const std::vector<int64_t>> TrainLoader::order_of(int64_t epoch) {
  std::scoped_lock lock(order_mutex_);
  if (cached_epoch_ != epoch) {
    cached_order_ = std::make_shared<const std::vector<int64_t>>(epochs_.of(epoch));
    cached_epoch_ = epoch;
  }
  return cached_order_;
}

EvalLoader::EvalLoader(std::shared_ptr<const Dataset> dataset, Split split, int64_t batch, const Limit& limit,
                       const TrainerConfig& config, World world, c10::Device device,
                       std::shared_ptr<const ImageBatcher> images)
    : dataset_(dataset), copies_(device), images_(std::move(images)) {
  const int64_t samples = dataset->size(split);
  const int64_t batches = limit.of((samples + batch - 1) / batch);
  rounds_ = (batches + world.size - 1) / world.size;
  const int64_t mine = std::max<int64_t>(0, (batches - world.rank + world.size - 1) / world.size);
  const auto load = [=, images = images_, checked = CheckedSplit(*dataset, split)](int64_t round) {
    const int64_t begin = (round * world.size + world.rank) * batch;
    std::vector<int64_t> indices(std::min(batch, samples - begin));
    std::iota(indices.begin(), indices.end(), begin);
    return pinned(images ? made_ahead(*images, indices, nullptr) : checked.get(indices), device);
  };
  prefetcher_ = std::make_unique<Prefetcher<Batch>>(0, mine, config.prefetch_threads, config.prefetch_batches, load);
}

std::optional<Batch> EvalLoader::next_unless(const std::function<bool()>& give_up) {
  auto batch = prefetcher_->next_unless(give_up);
  if (!batch) return std::nullopt;
  return is_resident(images_) ? images_->make(batch->index, nullptr) : copies_.copied(*std::move(batch));
}

}  // namespace ddprun

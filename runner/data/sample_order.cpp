// SPDX-License-Identifier: MIT
#include "data/sample_order.h"

#include <ddprun/random.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace ddprun {
namespace {

constexpr uint64_t kOrderStream = 0x6F72646572;  // "order": apart from every other use of the seed
constexpr uint64_t kDrawStream = 0x64726177;     // "draw"

}  // namespace

int64_t micro_batches_of(int64_t global_samples, int64_t world, int64_t micro_batch) {
  const int64_t largest = (global_samples + world - 1) / world;
  return micro_batch == 0 ? 1 : (largest + micro_batch - 1) / micro_batch;
}

std::vector<int64_t> unshuffled_order(int64_t size) {
  std::vector<int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> spread_numbers(int64_t size, int64_t count) {
  auto numbers = unshuffled_order(std::min(size, count));
  const auto last = std::max<int64_t>(1, static_cast<int64_t>(numbers.size()) - 1);
  for (auto& number : numbers) number = number * (size - 1) / last;
  return numbers;
}

std::vector<int64_t> epoch_order(uint64_t seed, int64_t epoch, int64_t size) {
  auto order = unshuffled_order(size);
  RandomStream draws(seed, kOrderStream, static_cast<uint32_t>(epoch));
  draws.shuffle(order);
  return order;
}

EpochOrder::EpochOrder(uint64_t seed, std::vector<double> weights, std::vector<int64_t> classes)
    : seed_(seed),
      size_(static_cast<int64_t>(weights.size())),
      weights_(std::move(weights)),
      classes_(std::move(classes)) {}

std::vector<int64_t> EpochOrder::of(int64_t epoch) const {
  if (weights_.empty()) return shuffle_ ? epoch_order(seed_, epoch, size_) : unshuffled_order(size_);
  auto candidates = epoch_order(seed_, epoch, size_);
  if (!classes_.empty()) std::ranges::stable_sort(candidates, {}, [&](int64_t sample) { return classes_[sample]; });
  RandomStream draws(seed_, kDrawStream, static_cast<uint32_t>(epoch));
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  const double step = total / static_cast<double>(size_), first = draws.uniform() * step;
  std::vector<int64_t> order;
  double reached = 0;  // the weights of the candidates so far
  for (const auto candidate : candidates) {
    reached += weights_[candidate];
    while (static_cast<int64_t>(order.size()) < size_ && first + static_cast<double>(order.size()) * step < reached)
      order.push_back(candidate);
  }
  const auto last = std::ranges::find_if(candidates.rbegin(), candidates.rend(),
                                         [&](int64_t candidate) { return weights_[candidate] > 0; });
  order.resize(size_, *last);  // where rounding has left the last draw beyond the sum
  draws.shuffle(order);
  return order;
}

StepPlan::StepPlan(int64_t samples, int64_t global_batch, const Limit& limit, int64_t shards)
    : samples_(samples),
      global_batch_(global_batch),
      steps_(limit.of((samples + global_batch - 1) / global_batch)),
      shards_(shards) {}

Slice StepPlan::global_slice(int64_t step_in_epoch) const {
  const int64_t begin = step_in_epoch * global_batch_;
  return {begin, std::min(begin + global_batch_, samples_)};
}

Slice StepPlan::shard_slice(Slice whole, int64_t shard) const {
  const auto part = part_of(whole.size(), shard, shards_);
  return {whole.begin + part.begin, whole.begin + part.end};
}

Slice StepPlan::rank_slice(Slice whole, int64_t rank, int64_t world) const {
  auto part = part_of(shards_ > 0 ? shards_ : whole.size(), rank, world);
  if (shards_ > 0)
    part = {part_of(whole.size(), part.begin, shards_).begin, part_of(whole.size(), part.end - 1, shards_).end};
  return {whole.begin + part.begin, whole.begin + part.end};
}

// The last micro-batch is the smallest, and the largest part has samples in each.
int64_t StepPlan::smallest_part(int64_t step_in_epoch, int64_t world, int64_t micro_batch, bool together) const {
  if (shards_ > 0) world = shards_;
  const auto whole = global_slice(step_in_epoch);
  const auto parts = micro_batches_of(whole.size(), world, micro_batch);
  int64_t smallest = global_batch_, sum = 0;
  for (int64_t rank = 0; rank < world; ++rank) {
    const auto samples = part_of(rank_slice(whole, rank, world).size(), parts - 1, parts).size();
    if (samples > 0) smallest = std::min(smallest, samples);
    sum += samples;
  }
  return together ? sum : smallest;
}

}  // namespace ddprun

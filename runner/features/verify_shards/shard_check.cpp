// SPDX-License-Identifier: MIT
#include "features/verify_shards/shard_check.h"

#include "base/log.h"
#include "data/sampling.h"
#include "plugin_host/plugin_call.h"
#include "train/same_data.h"

#include <ddprun/digest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

constexpr int64_t kCompared = 32;  // samples of a split at a time
constexpr size_t kHexDigits = 16;  // of a sample's SHA-256

// Returns samples spread over the whole split, different ones in each round.
std::vector<int64_t> compared_samples(int64_t samples, int64_t round) {
  const auto count = std::min(samples, kCompared);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back((i * samples / count + round) % samples);
  return numbers;
}

void update(Sha256& sum, const at::Tensor& tensor) {
  const auto values = tensor.contiguous();
  sum.update(values.const_data_ptr(), values.nbytes());
}

// Returns the first digits of each sample's digest.
std::string digests_of(const Batch& batch) {
  std::string digests;
  for (int64_t i = 0; i < batch.size(); ++i) {
    Sha256 sum;
    for (const auto& [name, tensor] : batch.tensors()) update(sum, tensor[i]);
    digests += sum.hex().substr(0, kHexDigits);
  }
  return digests;
}

// Compares different samples in each round.
void require_same_samples(const Dataset& dataset, Split split, const char* name, int64_t round,
                          Communicator& communicator) {
  const auto numbers = compared_samples(dataset.size(split), round);
  if (numbers.empty()) return;
  const auto batch = in_plugin({"dataset", "get"}, [&] { return dataset.get(split, numbers); });
  require_same_said(digests_of(batch), communicator, [&](const std::string& digests, const std::string& others) {
    const auto at = static_cast<size_t>(std::ranges::mismatch(digests, others).in1 - digests.begin()) / kHexDigits;
    return log::text(name, " sample ", numbers[at], " with SHA-256 ", digests.substr(at * kHexDigits, kHexDigits));
  });
}

}  // namespace

void require_same_samples(const Dataset& dataset, Communicator& communicator) {
  for (const auto& [split, name] : kSplitNames) require_same_samples(dataset, split, name, 0, communicator);
}

ShardCheck::ShardCheck(Communicator& communicator, std::shared_ptr<const Dataset> dataset, const StepPlan& plan,
                       int64_t first_step)
    : communicator_(communicator),
      dataset_(std::move(dataset)),
      plan_(plan),
      samples_(dataset_->size(Split::kTrain)),
      first_step_(first_step % plan.steps_per_epoch()) {}

void ShardCheck::add(const TrainBatch& item) {
  ++steps_;
  if (item.weight == 0) return;  // borrowed
  const auto* begin = item.batch.index.const_data_ptr<int64_t>();
  seen_.insert(seen_.end(), begin, begin + item.batch.index.numel());
}

void ShardCheck::check(int64_t epoch, const Experiment& experiment) {
  if (steps_ == 0) return;  // a run resumed at the epoch's end only has its evaluation left
  const auto order = training_order(*dataset_, experiment.trainer, experiment.seed).of(epoch - 1);
  auto counts = at::zeros({samples_}, at::kInt);
  auto* count = counts.data_ptr<int>();
  for (const auto sample : seen_) ++count[sample];
  communicator_.sum(counts);
  const auto last = plan_.global_slice(plan_.steps_per_epoch() - 1).end;
  for (auto position = plan_.global_slice(first_step_).begin; position < last; ++position) --count[order[position]];
  const auto wrong = counts.ne(0).sum().item<int64_t>();

  Sha256 sum;
  sum.update(seen_.data(), seen_.size() * sizeof(int64_t));
  const auto shards = communicator_.gather_texts(log::text(seen_.size(), " samples, sha256 ", sum.hex()));
  if (wrong > 0) {
    throw std::logic_error(log::text("trainer.verify_shards: in epoch ", epoch, ", ", wrong,
                                     " samples were not seen as often as it has them"));
  }
  if (communicator_.world().rank == 0) {
    for (size_t rank = 0; rank < shards.size(); ++rank) {
      log::info(log::text("epoch ", epoch, " rank ", rank, ": ", shards[rank]));
    }
    log::info(log::text("epoch ", epoch, ": the ranks' samples together are the epoch's"));
  }
  require_same_samples(*dataset_, Split::kTrain, "training", epoch, communicator_);
  seen_.clear();
  steps_ = 0;
  first_step_ = 0;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "train/shard_proof.h"

#include "digest/sha256.h"
#include "log/log.h"

#include <ATen/ATen.h>

#include <stdexcept>

namespace ddprun {

ShardProof::ShardProof(Communicator& communicator, const StepPlan& plan, int64_t samples, int64_t first_step)
    : communicator_(communicator), plan_(plan), samples_(samples), first_step_(first_step % plan.steps_per_epoch()) {}

void ShardProof::add(const TrainBatch& item) {
  if (item.weight == 0) return;  // borrowed
  const auto* begin = item.batch.index.const_data_ptr<int64_t>();
  seen_.insert(seen_.end(), begin, begin + item.batch.index.numel());
}

void ShardProof::check(int64_t epoch, const Experiment& experiment) {
  const auto& config = experiment.trainer;
  const bool shuffled = config.shuffle && config.overfit_batches == 0;
  const auto order = shuffled ? epoch_order(experiment.seed, epoch - 1, samples_) : unshuffled_order(samples_);
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
    throw std::logic_error(
        log::text("trainer.verify_shards: in epoch ", epoch, ", ", wrong, " samples were not seen exactly once"));
  }
  if (communicator_.world().rank == 0) {
    for (size_t rank = 0; rank < shards.size(); ++rank) {
      log::info(log::text("epoch ", epoch, " rank ", rank, ": ", shards[rank]));
    }
    log::info(log::text("epoch ", epoch, ": the ranks' samples are the epoch, each exactly once"));
  }
  seen_.clear();
  first_step_ = 0;
}

}  // namespace ddprun

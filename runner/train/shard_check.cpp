// SPDX-License-Identifier: MIT
#include "train/shard_check.h"

#include "base/log.h"
#include "base/program.h"
#include "data/sampling.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

constexpr std::array kSplits{std::pair(Split::kTrain, "training"), std::pair(Split::kVal, "validation"),
                             std::pair(Split::kTest, "test")};
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

// Returns the first rank that differs from rank 0; 0 if there is none.
size_t first_other(const std::vector<std::string>& said) {
  const auto other = std::ranges::find_if(said, [&](const auto& text) { return text != said[0]; });
  return other == said.end() ? 0 : static_cast<size_t>(other - said.begin());
}

// Throws the error; called by all ranks.
[[noreturn]] void refuse(size_t rank, const std::string& its, const std::string& of_rank_0,
                         Communicator& communicator) {
  const auto hosts = communicator.gather_texts(host_name());
  throw UserError(log::text("dataset: rank ", rank, " on ", hosts[rank], " has ", its, "; rank 0 on ", hosts[0],
                            " has ", of_rank_0,
                            ". Each node reads its own copy of the data: bring them to the same state"));
}

void require_same_sizes(const Dataset& dataset, Communicator& communicator) {
  std::string sizes;
  for (const auto& [split, name] : kSplits)
    sizes += log::text(sizes.empty() ? "" : ", ", dataset.size(split), " ", name, " samples");
  const auto all = communicator.gather_texts(sizes);
  if (const auto rank = first_other(all)) refuse(rank, all[rank], all[0], communicator);
}

// Ranks with other labels, or another file of weights, would draw other samples of the same epoch.
void require_same_order(const Dataset& dataset, const Experiment& experiment, Communicator& communicator) {
  const auto order = training_order(dataset, experiment.trainer, experiment.seed).of(0);
  Sha256 sum;
  sum.update(order.data(), order.size() * sizeof(int64_t));
  const auto all = communicator.gather_texts("samples drawn with the SHA-256 " + sum.hex().substr(0, 16));
  if (const auto rank = first_other(all)) refuse(rank, all[rank], all[0], communicator);
}

// Compares different samples in each round.
void require_same_samples(const Dataset& dataset, Split split, const char* name, int64_t round,
                          Communicator& communicator) {
  const auto numbers = compared_samples(dataset.size(split), round);
  if (numbers.empty()) return;
  const auto batch = in_plugin({"dataset", "get"}, [&] { return dataset.get(split, numbers); });
  const auto all = communicator.gather_texts(digests_of(batch));
  const auto rank = first_other(all);
  if (rank == 0) return;
  const auto at = static_cast<size_t>(std::ranges::mismatch(all[rank], all[0]).in1 - all[rank].begin()) / kHexDigits;
  const auto told = [&](const std::string& digests) {
    return log::text(name, " sample ", numbers[at], " with SHA-256 ", digests.substr(at * kHexDigits, kHexDigits));
  };
  refuse(rank, told(all[rank]), told(all[0]), communicator);
}

}  // namespace

void require_same_data(const Dataset& dataset, const Experiment& experiment, Communicator& communicator) {
  require_same_sizes(dataset, communicator);
  if (experiment.trainer.sampling.is_on()) require_same_order(dataset, experiment, communicator);
  if (!experiment.trainer.verify_shards) return;
  for (const auto& [split, name] : kSplits) require_same_samples(dataset, split, name, 0, communicator);
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

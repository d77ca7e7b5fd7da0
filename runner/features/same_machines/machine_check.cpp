// SPDX-License-Identifier: MIT
#include "features/same_machines/machine_check.h"

#include "base/allocator.h"
#include "base/log.h"
#include "comm/replicate.h"
#include "plugin_host/plugin_call.h"
#include "step/machine_text.h"
#include "step/train_step.h"
#include "weights/model_weights.h"
#include "weights/state_guard.h"
#include "weights/tensor_digest.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ddprun {
namespace {

// Returns numbers `first` to `first + count` of a sequence that is the same on every machine, since each is rounded
// once; they lie from 0 to 1.
at::Tensor made_units(int64_t first, int64_t count) {
  constexpr int64_t kFactor = 2'654'435'761, kBits = 16;  // Knuth's multiplicative hash
  const auto hashes = at::arange(first, first + count, at::kLong).mul_(kFactor).bitwise_right_shift_(8);
  return hashes.bitwise_and_((1 << kBits) - 1).to(at::kDouble).div_(1 << kBits);
}

// Fills a parameter with numbers that keep activations of the size of the inputs: up to 2 / sqrt(inputs of a neuron)
// for matrices and kernels, and 1 to 1.25 for scales and offsets. A few of its rows at once: numbers take more memory
// while they are made.
void put_made_weights(const at::Tensor& parameter) {
  constexpr int64_t kAtOnce = 1 << 16;
  const auto count = parameter.numel();
  if (count == 0) return;
  const auto rows = parameter.dim() == 0 ? parameter.detach().unsqueeze(0) : parameter.detach();
  const auto inputs = count / rows.size(0), at_once = std::max<int64_t>(1, kAtOnce / inputs);
  for (int64_t row = 0; row < rows.size(0); row += at_once) {
    const auto some = rows.narrow(0, row, std::min(at_once, rows.size(0) - row));
    const auto units = made_units(row * inputs, some.numel());
    const bool is_vector = parameter.dim() < 2;
    const auto made = is_vector ? units.div_(4).add_(1) : units.mul_(4).sub_(2).div_(std::sqrt(inputs));
    some.copy_(made.view(some.sizes()));
  }
}

// Buffers, too, which training changes: a step's digest must not depend on when it is made.
void put_made_weights(const Model& model) {
  const torch::NoGradGuard no_gradients;
  for (const auto& parameter : model.parameters()) put_made_weights(parameter);
  for (const auto& buffer : buffers(model))
    if (buffer.is_floating_point()) put_made_weights(buffer);
}

// Returns the first training samples, as many as a shard has.
Batch first_samples(const Context& context) {
  const auto& trainer = context.experiment.trainer;
  const auto count =
      std::min(context.dataset->size(Split::kTrain), part_of(trainer.global_batch, 0, trainer.shards).size());
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  auto batch = in_plugin({"dataset", "get"}, [&] { return context.dataset->get(Split::kTrain, numbers); });
  batch.replace_tensors([&](const at::Tensor& tensor) { return tensor.to(context.device); });
  return batch;
}

// Returns the digest of the loss and the gradients, and of sums and quotients of weights and gradients as optimizers
// compute them.
uint64_t digest_of_step(const at::Tensor& loss, const std::vector<NamedParameter>& parameters) {
  auto digest = digest_of({loss});
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, weight] : parameters) {
    const auto& gradient = weight.grad();
    if (!gradient.defined()) continue;
    digest += digest_of({name}, {gradient});
    digest += digest_of({name + " of sgd"}, {weight.add(gradient, -0.1)});
    digest += digest_of({name + " of momentum"}, {at::lerp(weight, gradient, 0.1)});
    const auto root = (gradient * gradient).sqrt_().add_(1e-8);
    digest += digest_of({name + " of adam"}, {at::addcdiv(weight, gradient, root, -0.1)});
  }
  return digest;
}

uint64_t digest_of_a_step(const Context& context, TrainStep& step) {
  const ReturnedMemory once;  // copies of the weights and gradients
  const StateGuard kept(buffers(*context.model), context.backend.get());
  const KeptWeights weights(*context.model);
  put_made_weights(*context.model);
  context.model->train();
  seed_shard(/*seed=*/0, /*step=*/0, /*shard=*/0, context.backend.get());
  uint64_t digest = 0;
  step.compute_alone(first_samples(context),
                     [&](const auto& loss, const auto& parameters) { digest = digest_of_step(loss, parameters); });
  return digest;
}

}  // namespace

void SameMachines::before_first_step(Loop& loop) {
  const auto& context = loop.context;
  context.enter(Activity::kComputing, loop.state.step);
  const auto digest = digest_of_a_step(context, loop.step);
  const auto digests = context.communicator.gather_texts(std::to_string(digest));
  const auto machines = context.communicator.gather_texts(machine_text(context.backend.get()));
  std::string others;
  for (size_t rank = 1; rank < digests.size(); ++rank)
    if (digests[rank] != digests[0])
      others += log::text(others.empty() ? "" : "; ", "rank ", rank, ": ", machines[rank]);
  if (!others.empty())
    throw UserError(
        log::text("trainer.shards: not all workers compute the same bits, so these would depend on who computes "
                  "which part. Rank 0: ",
                  machines[0], "; other bits has ", others,
                  ". Train on machines of one kind, with as many threads each, or set trainer.shards=0"));
  const auto first = std::stoull(digests[0]);
  if (context.is_rank_zero() && !machine_.empty() && digest_ != first)
    log::warn(
        log::text("trainer.shards: this machine computes other bits than the one that the run was on, so from here on "
                  "they are not those that it would have had there. Now: ",
                  machines[0], "; then: ", machine_));
  digest_ = first;
  machine_ = machines[0];
}

void SameMachines::save(const Loop& /*loop*/, FeatureStates& states) {
  states["machine"] = nlohmann::json{digest_, machine_}.dump();
}

void SameMachines::restore(Loop& loop, const FeatureStates& states) {
  const auto before = loop.state.threads, now = int64_t{at::get_num_threads()};
  if (before != now && loop.context.is_rank_zero())
    log::warn(log::text("launch.threads is ", now, ", but the run's checkpoint was saved with ", before,
                        ": from here on the bits are not those that trainer.shards would have given with ", before));
  const auto from = nlohmann::json::parse(states.at("machine"));
  from.at(0).get_to(digest_);
  from.at(1).get_to(machine_);
}

std::unique_ptr<Feature> make_same_machines(const Context& context, const TrainPlan& /*plan*/) {
  return context.experiment.trainer.shards > 0 ? std::make_unique<SameMachines>() : nullptr;
}

}  // namespace ddprun

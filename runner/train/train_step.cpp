// SPDX-License-Identifier: MIT
#include "train/train_step.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "data/sample_order.h"
#include "metrics/packed.h"
#include "plugin_host/plugin_call.h"
#include "train/gradients.h"
#include "train/master_weights.h"
#include "train/state_guard.h"
#include "train/tensor_digest.h"

#include <ddprun/error.h>

#include <ATen/record_function.h>
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddprun {
namespace {

ReducerOptions reducer_options(const TrainerConfig& config) {
  ReducerOptions options{.find_unused_parameters = config.find_unused_parameters, .static_graph = config.static_graph};
  using Compression = ReducerOptions::Compression;
  if (config.gradient_compression == GradientCompression::kFp16) options.compression = Compression::kFp16;
  if (config.gradient_compression == GradientCompression::kBf16) options.compression = Compression::kBf16;
  options.shards = config.shards;
  return options;
}

// Returns a bool on the device: x - x is 0 for every finite number, NaN for the others.
at::Tensor not_finite(const at::Tensor& number) { return (number - number).ne(0); }

// Calls a function at the end of the scope, however it is left.
template <class Call>
class ScopeEnd {
 public:
  explicit ScopeEnd(Call call) : call_(std::move(call)) {}
  ~ScopeEnd() { call_(); }
  ScopeEnd(const ScopeEnd&) = delete;
  ScopeEnd& operator=(const ScopeEnd&) = delete;

 private:
  Call call_;
};

// Has BatchNorm compute without the other ranks while it lives, if it is given the statistics that all share.
class WithoutOthers {
 public:
  WithoutOthers(Model& model, const std::shared_ptr<BatchStatistics>& shared) : model_(model), shared_(shared) {
    if (shared_) attach_statistics(model_, std::shared_ptr<BatchStatistics>());
  }
  ~WithoutOthers() {
    if (shared_) attach_statistics(model_, shared_);
  }
  WithoutOthers(const WithoutOthers&) = delete;
  WithoutOthers& operator=(const WithoutOthers&) = delete;

 private:
  Model& model_;
  std::shared_ptr<BatchStatistics> shared_;
};

std::vector<at::Tensor> clones_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> clones;
  for (const auto& tensor : tensors) clones.push_back(tensor.clone());
  return clones;
}

// Restores running statistics if the device finds that the step is skipped.
class BufferGuard {
 public:
  BufferGuard(const std::vector<at::Tensor>& buffers, bool enabled) : buffers_(buffers) {
    if (enabled) kept_ = clones_of(buffers);
  }

  // Restores the buffers; `skipped` is a bool on the device, or undefined.
  void restore_where(const at::Tensor& skipped) const {
    for (size_t i = 0; skipped.defined() && i < kept_.size(); ++i)
      buffers_[i].copy_(at::where(skipped, kept_[i], buffers_[i]));
  }

 private:
  const std::vector<at::Tensor>& buffers_;
  std::vector<at::Tensor> kept_;
};

// Has each shard begin with the buffers with which the step began. The step ends with those that the first shard
// leaves, on the rank that has it. Does nothing without shards.
class ShardBuffers {
 public:
  ShardBuffers(const std::vector<at::Tensor>& buffers, bool enabled) : buffers_(buffers), enabled_(enabled) {
    if (enabled_) kept_ = clones_of(buffers);
  }

  void before_part() {
    if (std::exchange(changed_, true)) put(kept_);
  }

  // Keeps those of a shard that is the rank's own.
  void after_shard(int64_t number) {
    if (enabled_ && number == 0) left_ = clones_of(buffers_);
  }

  void end() const { put(left_.empty() ? kept_ : left_); }

 private:
  void put(const std::vector<at::Tensor>& values) const {
    const torch::NoGradGuard no_gradients;
    if (!values.empty()) at::_foreach_copy_(buffers_, values);
  }

  const std::vector<at::Tensor>& buffers_;
  bool enabled_, changed_ = false;
  std::vector<at::Tensor> kept_, left_;
};

}  // namespace

void require_loss(const at::Tensor& loss) {
  if (!loss.defined() || !loss.requires_grad())
    throw PluginMistake({"model", "the loss depends on no parameter; check for detach(), item() or a NoGradGuard"});
  if (loss.numel() != 1)
    throw PluginMistake(
        {"model", log::text("the loss is ", loss.sizes(), ": expected one number, the mean over the samples")});
}

std::vector<std::string> without_gradient(const std::vector<NamedParameter>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) {
    if (!parameter.value.grad().defined()) names.push_back(parameter.name);
  }
  return names;
}

std::string unused_text(const std::vector<std::string>& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  return "the loss does not depend on these parameters, so they are not trained, and training with several workers "
         "would fail: " +
         list + ". Use them in forward, or do not register them; trainer.find_unused_parameters=true allows them";
}

StepOutcome::StepOutcome(const StepResults& results, c10::Device device)
    : results_(results), device_(device), numbers_(std::make_shared<DeviceNumbers>(results.numbers)) {}

MetricSums StepOutcome::sums() const { return results_.sums.with(numbers_->get().slice(0, results_.checked), device_); }

at::Tensor StepOutcome::mean_loss() const {
  const auto loss = results_.sums.with(results_.numbers.slice(0, results_.checked), device_).mean_loss();
  return loss.defined() ? loss.to(at::kFloat) : loss;  // a copy, since the next step may overwrite the numbers
}

TrainStep::TrainStep(const Context& context, StepTimer& timer, Schedule schedule, OptimizerShare share)
    : context_(context),
      config_(context.experiment.trainer),
      timer_(timer),
      parallel_(context.parallel),
      lr_(context.optimizer, std::move(schedule), context.backend != nullptr),
      share_(std::move(share)),
      parameters_(trainable_parameters(*context.model)),
      buffers_(buffers(*context.model)),
      shared_(*context.model, config_.broadcast_buffers == BroadcastBuffers::kEveryStep),
      reducer_(make_reducer()),
      scaler_({.scale = config_.loss_scale}, context.device, context.precision.scales_gradients()),
      clip_(config_, scaler_.enabled()),
      ema_(parameters_, config_.ema_decay, share_, dynamic_cast<const MasterWeights*>(context.optimizer.get())),
      mark_(parameters_, skips_by_norm()),
      graphs_(context, timer),
      micro_batch_(std::max<int64_t>(config_.micro_batch, 0)) {
  if (config_.sync_batchnorm) statistics_ = synchronize_batch_norm(*context.model, context.communicator);
  if (!parallel_)
    parallel_ = std::make_shared<DataParallel>(std::vector<DataParallel::Copy>{{context.model, context.device}});
  if (!graphs_.in_use()) return;
  if (const auto reason = why_not_capturable(); !reason.empty()) graphs_.refuse(reason);
}

// Ranks that share the optimizer need the gradients of their own parameters only. Without shards the order in which
// those of more than two ranks are added belongs to the algorithm of Gloo or NCCL, which gives them to all.
std::unique_ptr<GradientReducer> TrainStep::make_reducer() const {
  auto options = reducer_options(config_);
  const bool order_is_known = context_.communicator.world().size == 2 || config_.shards > 0;
  if (share_.is_shared() && order_is_known) options.owners = share_.owners(parameters_);
  return std::make_unique<GradientReducer>(parameters_, context_.communicator, options);
}

void TrainStep::take_parameters() {
  settle_weights();
  parameters_ = trainable_parameters(*context_.model);
  reducer_.reset();  // its hooks on the parameters go before those of the next one come
  reducer_ = make_reducer();
  mark_ = GradientMark(parameters_, skips_by_norm());
  ema_.follow(parameters_);
  looked_for_unused_ = false;
  graphs_.forget();
  lr_.forget();
}

void TrainStep::set_scaler_state(const GradScaler::State& state) {
  scaler_ = GradScaler(state, context_.device, context_.precision.scales_gradients());
}

// Returns why the settings prevent capturing steps; empty if they do not.
std::string TrainStep::why_not_capturable() {
  const bool several = context_.communicator.is_distributed();
  if (parallel_->devices() > 1) return "trainer.strategy dp has several GPUs in one process";
  if (several && config_.find_unused_parameters) return "trainer.find_unused_parameters looks for them on the host";
  if (reducer_->through_host()) return "launch.backend gloo exchanges gradients through host memory";
  if (several && config_.gradient_compression != GradientCompression::kNone)
    return "trainer.gradient_compression works on streams of its own";
  if (!lr_.send()) return "this optimizer, with these options, needs the host in its step";
  return "";
}

// Runs a step. The lrs may depend on whether the previous step counted, which the host then waits for: with graphs
// before the step, otherwise as late as possible, in compute(), when the GPU has more work queued.
StepOutcome TrainStep::run(const TrainBatch& batch, int64_t step, bool watched) {
  if (graphs_.in_use() && !watched) set_lrs(step);
  const auto computed = [&](const TrainBatch& some, const StepMode& mode) { return compute(some, step, mode); };
  const auto results = graphs_.in_use() ? graphs_.run(batch, watched, computed) : compute(batch, step, {});
  weights_are_old_ = share_.is_shared();
  recorder_ = nullptr;
  flops_ = nullptr;
  lr_.forget();
  scaler_.count();
  StepOutcome outcome(results, context_.device);
  if (skips_by_norm()) last_ = outcome;
  return outcome;
}

// Computes micro-batches or shards, loss, backward with all-reduce, unscaling and clipping, optimizer, EMA. Nothing in
// it may wait for the device or use host numbers that change from step to step: cuda_graphs.h captures it.
StepResults TrainStep::compute(const TrainBatch& batch, int64_t step, const StepMode& mode) {
  const ScopeEnd without_gradients([this] { drop_gradients(); });
  const WithoutOthers without_others(*context_.model, mode.alone ? statistics_ : nullptr);
  const auto parts = split(batch);
  const auto shards = std::min(config_.shards, batch.global_samples);  // that have samples
  const Listening listening(mode.log);
  const BufferGuard buffers(buffers_, skips());
  StepResults results;
  CountedMean counted(context_.communicator,
                      {.micro_batches = std::ssize(parts), .shards = shards, .alone = mode.alone});
  timer_.begin(StepPhase::kWait);
  reducer_->start(shards, needs_all_gradients());
  if (!mode.alone) {
    reducer_->before_forward();
    context_.communicator.broadcast(shared_.read_by_step());
  }
  arriving_ = start_weights(mode);
  parallel_->refresh();
  forward_and_backward(parts, batch.step, mode, counted, results.sums);
  parallel_->collect_gradients();
  if (mode.backward_only) return results;
  tell_of_unused();
  timer_.begin(StepPhase::kOptimizer);
  const torch::NoGradGuard no_gradients;
  const auto shared = leave_others_gradients();
  counted.correct(this->gradients());
  const auto gradients = finish_gradients(results.sums, shared, mode.alone);  // unscaled, checked, clipped
  set_lrs(step);
  if (mode.applied) *mode.applied = true;
  update_weights(gradients);
  buffers.restore_where(gradients.skipped);
  auto numbers = gradients.checked;
  results.checked = static_cast<int64_t>(numbers.size());
  std::ranges::move(results.sums.scalars(context_.device), std::back_inserter(numbers));
  results.numbers = packed(numbers);
  return results;
}

// Computes the parts' losses and gradients one after the other; the exchange of gradients is within the last one.
void TrainStep::forward_and_backward(const std::vector<Part>& parts, int64_t step, const StepMode& mode,
                                     CountedMean& counted, MetricSums& sums) {
  ShardBuffers buffers(buffers_, config_.shards > 0);
  for (const auto& part : parts) {
    timer_.begin(StepPhase::kForward);
    buffers.before_part();
    begin_part(part, step, mode);
    auto* const recorder = part.samples > 0 ? recorder_ : nullptr;
    if (recorder) recorder->begin_part(part.batch, part.shard);
    auto* const listener = listener_of(part, mode);
    const auto loss = forward(part, listener, counted, sums);  // in autocast; weighted by its share, scaled
    timer_.begin(StepPhase::kBackward);
    if (flops_) flops_->begin_backward();
    const Listening listening(listener);
    if (part.last && !mode.alone) {
      reducer_->backward(loss, [this] { timer_.begin(StepPhase::kWait); });
    } else {
      reducer_->accumulate(loss);
    }
    if (recorder) recorder->end_part();
    if (part.samples > 0) buffers.after_shard(part.shard);
  }
  buffers.end();
}

// Seeds a shard or, in a step that is captured, begins the graph that is seeded before its replay: neither is an
// operator of the step, whose seeds change.
void TrainStep::begin_part(const Part& part, int64_t step, const StepMode& mode) {
  if (part.shard < 0) return;
  const at::DisableRecordFunctionGuard unseen;
  if (!mode.next_shard) return seed_shard(context_.experiment.seed, step, part.shard, context_.backend.get());
  if (!part.first) mode.next_shard();
}

std::vector<TrainStep::Part> TrainStep::split(const TrainBatch& batch) const {
  if (batch.shards.empty()) return micro_batches(batch);
  std::vector<Part> parts;
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

// Splits the batch into the same number of micro-batches on every rank, set by the largest part: the exchange belongs
// to each rank's last one. A micro-batch without samples of its own borrows one and adds nothing.
std::vector<TrainStep::Part> TrainStep::micro_batches(const TrainBatch& batch) const {
  const int64_t count = micro_batches_of(batch.global_samples, context_.communicator.world().size, micro_batch_);
  const auto made = batch.made();
  const int64_t own = batch.weight > 0 ? made.size() : 0;
  std::vector<Part> parts;
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

// Returns who hears the part's operators; null: nobody, or he who hears those of the step.
OperatorListener* TrainStep::listener_of(const Part& part, const StepMode& mode) {
  if (part.samples == 0) return nullptr;
  if (recorder_) return recorder_;
  if (!flops_ || mode.log) return nullptr;
  flops_->begin_forward(part.samples);
  return flops_;
}

// Returns the loss for backward: weighted and scaled.
at::Tensor TrainStep::forward(const Part& part, OperatorListener* listener, CountedMean& counted, MetricSums& sums) {
  const auto batch = context_.precision.converted(part.batch);
  if (statistics_) statistics_->counts = part.samples > 0;
  Step step;
  {
    const auto autocast = context_.precision.autocast();
    const Listening listening(listener);
    std::optional<ArrivingWeightsScope> arriving;
    if (arriving_) arriving.emplace(*arriving_);
    step = parallel_->step(batch, context_.objective);
  }
  if (const auto unread = std::exchange(arriving_, nullptr)) unread->wait_for_all();
  require_loss(step.loss);
  if (recorder_ && part.samples > 0) recorder_->begin_backward(step);
  mark_.set(step.loss);
  sums.add(step, part.samples);
  if (counts_.value_or(step.counted.defined()) != step.counted.defined()) only_some_count();
  counts_ = step.counted.defined();
  if (!*counts_) return scaler_.scaled(part.weight == 1 ? step.loss : step.loss * part.weight);
  const auto weight = counted.weight(step.counted, part.samples == 0);
  return scaler_.scaled(weight.defined() ? step.loss * weight : step.loss);
}

// Warns of unused parameters, which end a run of several workers but would go unnoticed in one of a single worker.
void TrainStep::tell_of_unused() {
  if (context_.communicator.is_distributed() || std::exchange(looked_for_unused_, true)) return;
  const auto unused = without_gradient(parameters_);
  if (!unused.empty() && !config_.find_unused_parameters) log::warn("model: " + unused_text(unused));
}

// Leaves the gradients of other ranks' parameters to those, if ranks share the optimizer and nobody looks at all of
// them. Returns then the parameters that had one, on whatever rank; else nothing.
std::vector<NamedParameter> TrainStep::leave_others_gradients() {
  std::vector<NamedParameter> with_gradient;
  if (!share_.is_shared() || needs_all_gradients()) return with_gradient;
  for (const auto& parameter : parameters_) {
    if (parameter.value.grad().defined()) with_gradient.push_back(parameter);
  }
  share_.drop_others_gradients(parameters_);
  return with_gradient;
}

// Unscales, checks and clips the gradients. One norm per gradient tells the host whether they are finite; the device
// needs an answer of its own only if it must skip the step. Of `shared` parameters each rank has the gradients of its
// own, and learns what the others found.
TrainStep::Gradients TrainStep::finish_gradients(MetricSums& sums, const std::vector<NamedParameter>& shared,
                                                 bool alone) {
  const auto all = gradients();
  const bool has_some = !shared.empty() && !alone;
  Gradients result{.found_inf = scaler_.unscale(all)};
  if (has_some && result.found_inf.defined())
    result.found_inf = context_.communicator.start_sum(result.found_inf).take().clamp_max_(1);
  if (shown_to_) std::exchange(shown_to_, nullptr)(parameters_);
  shows_ = false;
  if (recorder_) recorder_->note_gradients(parameters_);
  std::function<GradientClip::Norms(const GradientClip::Norms&)> of_all;
  if (has_some) of_all = [&](const auto& own) { return share_.of_all(own, shared); };
  result.checked = clip_.apply(all, sums, context_.is_rank_zero(), of_all);
  if (const auto loss = sums.loss(); loss.defined()) result.checked.push_back(loss);
  if (skips() && !result.checked.empty()) result.skipped = not_finite(result.checked.front());
  if (skips_by_norm()) result.found_inf = result.skipped.to(at::kFloat);
  return result;
}

// Steps this rank's share, and its averages. The others' new weights come at the beginning of the next step.
void TrainStep::update_weights(const Gradients& gradients) {
  share_.drop_others_gradients(parameters_);
  step_optimizer(gradients);
  scaler_.update();
  ema_.update(gradients.found_inf);
}

// Begins to get the weights that other ranks have stepped; for a model that does not wait for them, gets them. A graph
// always does, since it is replayed after steps that leave old ones.
std::unique_ptr<SpreadWeights> TrainStep::start_weights(const StepMode& mode) {
  if (mode.alone || !share_.is_shared() || !(weights_are_old_ || mode.captured)) return nullptr;
  weights_are_old_ = false;
  auto weights = share_.start_spreading(parameters_);
  if (!context_.model->waits_for_weights()) {
    weights->wait_for_all();
    return nullptr;
  }
  weights->around_waits([this] { timer_.begin(StepPhase::kWait); }, [this] { timer_.begin(StepPhase::kForward); });
  return weights;
}

void TrainStep::settle_weights() {
  if (std::exchange(weights_are_old_, false)) share_.spread(parameters_);
}

void TrainStep::step_optimizer(const Gradients& gradients) {
  if (gradients.found_inf.defined()) {
    in_plugin({"optimizer", "step_unless"}, [&] { context_.optimizer->step_unless(gradients.found_inf); });
  } else {
    in_plugin({"optimizer", "step"}, [&] { context_.optimizer->step(); });
  }
}

// Drops the gradients. Undefined gradients cost the next backward nothing: it puts its own in their place, where zeros
// would be added to.
void TrainStep::drop_gradients() {
  for (const auto& parameter : parameters_) parameter.value.mutable_grad().reset();
}

void TrainStep::skip(int64_t step) {
  set_lrs(step);
  lr_.forget();
  ++skipped_;
}

int64_t TrainStep::skipped() {
  if (last_) skipped_ += last_->nonfinite() ? 1 : 0;
  last_.reset();
  return skipped_;
}

void TrainStep::set_skipped(int64_t steps) {
  last_.reset();
  skipped_ = steps;
}

void TrainStep::forward_backward(const TrainBatch& batch, int64_t samples) {
  const ScopeEnd without_gradients([this] { drop_gradients(); });
  backward_alone(part_of_batch(batch.made(), {0, samples}));
}

// Computes loss and gradients on this rank alone. Returns the loss.
at::Tensor TrainStep::backward_alone(const Batch& batch) {
  const WithoutOthers without_others(*context_.model, statistics_);
  MetricSums unused;
  CountedMean counted(context_.communicator, {.alone = true});
  parallel_->refresh();
  const auto loss = forward({.batch = batch, .samples = batch.size()}, nullptr, counted, unused);
  loss.backward();
  parallel_->collect_gradients();
  return loss.detach();
}

uint64_t TrainStep::digest_of(const Batch& batch) {
  const ScopeEnd without_gradients([this] { drop_gradients(); });
  auto digest = ddprun::digest_of({backward_alone(batch)});
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, weight] : parameters_) {
    const auto& gradient = weight.grad();
    if (!gradient.defined()) continue;
    digest += ddprun::digest_of({name}, {gradient});
    digest += ddprun::digest_of({name + " of sgd"}, {weight.add(gradient, -0.1)});
    digest += ddprun::digest_of({name + " of momentum"}, {at::lerp(weight, gradient, 0.1)});
    const auto root = (gradient * gradient).sqrt_().add_(1e-8);
    digest += ddprun::digest_of({name + " of adam"}, {at::addcdiv(weight, gradient, root, -0.1)});
  }
  return digest;
}

void TrainStep::set_lrs(int64_t step) {
  lr_.set(step, [&] { return step - skipped() - scaler_.overflows(); });
}

std::vector<at::Tensor> TrainStep::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters_) {
    if (parameter.value.grad().defined()) gradients.push_back(parameter.value.grad());
  }
  return gradients;
}

}  // namespace ddprun

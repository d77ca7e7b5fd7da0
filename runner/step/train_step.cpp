// SPDX-License-Identifier: MIT
#include "step/train_step.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "metrics/packed.h"
#include "plugin_host/plugin_call.h"
#include "sharing/master_weights.h"
#include "weights/state_guard.h"

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

// Has the ranks share the optimizer with trainer.shard_optimizer. What stays frozen to the end has no state.
OptimizerShare share_of(const Context& context, const Trains& trains) {
  OptimizerShare share;
  if (context.experiment.trainer.shard_optimizer) {
    share = OptimizerShare(*context.optimizer, context.communicator, trains);
    if (context.is_rank_zero()) log::info(share.text());
  }
  if (auto* masters = dynamic_cast<MasterWeights*>(context.optimizer.get()))
    masters->keep_only([&](const std::string& name) { return trains(name) && share.is_own(name); });
  return share;
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

}  // namespace

TrainStep::TrainStep(const Context& context, Schedule schedule, const Trains& trains)
    : context_(context),
      config_(context.experiment.trainer),
      timer_(context.backend ? context.backend->make_timer() : nullptr),
      parallel_(context.parallel),
      lr_(context.optimizer, std::move(schedule), context.backend != nullptr),
      share_(share_of(context, trains)),
      parameters_(trainable_parameters(*context.model)),
      buffers_(buffers(*context.model)),
      shared_(*context.model, config_.broadcast_buffers == BroadcastBuffers::kEveryStep),
      reducer_(make_reducer()),
      scaler_({.scale = config_.loss_scale}, context.device, context.precision.scales_gradients()),
      clip_(config_, scaler_.enabled()),
      ema_(parameters_, config_.ema_decay, share_, dynamic_cast<const MasterWeights*>(context.optimizer.get())),
      mark_(parameters_, skips_by_norm()),
      graphs_(context, timer_),
      is_warm_(!context.communicator.is_distributed()),
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
  is_warm_ = !context_.communicator.is_distributed();
  looked_for_unused_ = false;
  graphs_.forget();
  lr_.forget();
}

void TrainStep::restore(const Schedule::State& schedule, const GradScaler::State& scaler, int64_t skipped) {
  lr_.schedule().set_state(schedule);
  scaler_ = GradScaler(scaler, context_.device, context_.precision.scales_gradients());
  last_.reset();
  skipped_ = skipped;
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
StepOutcome TrainStep::run(const TrainBatch& batch, int64_t step, bool by_operators,
                           const std::vector<StepWatcher*>& watchers) {
  if (graphs_.in_use() && !by_operators) set_lrs(step);
  watchers_ = watchers;
  const ScopeEnd unwatched([this] { watchers_.clear(); });
  const auto computed = [&](const TrainBatch& some, const StepMode& mode) { return compute(some, step, mode); };
  const auto results = graphs_.in_use() ? graphs_.run(batch, by_operators, computed) : compute(batch, step, {});
  weights_are_old_ = share_.is_shared();
  if (weights_are_old_ && context_.poisons_old_weights) share_.poison_others(parameters_);
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
  const auto parts = parts_of(batch, context_.communicator.world().size, micro_batch_);
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
  warn_of_unused();
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
void TrainStep::forward_and_backward(const std::vector<BatchPart>& parts, int64_t step, const StepMode& mode,
                                     CountedMean& counted, MetricSums& sums) {
  ShardBuffers buffers(buffers_, config_.shards > 0);
  for (const auto& part : parts) {
    timer_.begin(StepPhase::kForward);
    buffers.before_part();
    begin_part(part, step, mode);
    const bool watched = part.samples > 0;
    if (watched) call_watchers(&StepWatcher::begin_part, part.batch, part.shard);
    auto* const listener = listener_of(part, mode);
    const auto loss = forward(part, listener, counted, sums);  // in autocast; weighted by its share, scaled
    timer_.begin(StepPhase::kBackward);
    const Listening listening(listener);
    if (part.last && !mode.alone) {
      reducer_->backward(loss, [this] { timer_.begin(StepPhase::kWait); });
    } else {
      reducer_->accumulate(loss);
    }
    if (watched) call_watchers(&StepWatcher::end_part);
    if (part.samples > 0) buffers.after_shard(part.shard);
  }
  buffers.end();
}

// Seeds a shard or, in a step that is captured, begins the graph that is seeded before its replay: neither is an
// operator of the step, whose seeds change.
void TrainStep::begin_part(const BatchPart& part, int64_t step, const StepMode& mode) {
  if (part.shard < 0) return;
  const at::DisableRecordFunctionGuard unseen;
  if (!mode.next_shard) return seed_shard(context_.experiment.seed, step, part.shard, context_.backend.get());
  if (!part.first) mode.next_shard();
}

// Returns who hears the part's operators; null: nobody, or he who hears those of the step.
OperatorListener* TrainStep::listener_of(const BatchPart& part, const StepMode& mode) const {
  if (part.samples == 0 || mode.log) return nullptr;
  for (auto* watcher : watchers_)
    if (auto* listener = watcher->listener(part.samples)) return listener;
  return nullptr;
}

bool TrainStep::needs_all_gradients() const {
  return std::ranges::any_of(watchers_, [](const auto* watcher) { return watcher->needs_gradients(); });
}

// Returns the loss for backward: weighted and scaled.
at::Tensor TrainStep::forward(const BatchPart& part, OperatorListener* listener, CountedMean& counted,
                              MetricSums& sums) {
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
  if (part.samples > 0) call_watchers(&StepWatcher::begin_backward, step);
  mark_.set(step.loss);
  sums.add(step, part.samples);
  if (counts_.value_or(step.counted.defined()) != step.counted.defined()) only_some_count();
  counts_ = step.counted.defined();
  if (!*counts_) return scaler_.scaled(part.weight == 1 ? step.loss : step.loss * part.weight);
  const auto weight = counted.weight(step.counted, part.samples == 0);
  return scaler_.scaled(weight.defined() ? step.loss * weight : step.loss);
}

// Warns of unused parameters, which end a run of several workers but would go unnoticed in one of a single worker.
void TrainStep::warn_of_unused() {
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

// Unscales, checks and clips the gradients. One norm per gradient shows the host whether they are finite; the device
// needs an answer of its own only if it must skip the step. Of `shared` parameters each rank has the gradients of its
// own, and learns what the others found.
TrainStep::Gradients TrainStep::finish_gradients(MetricSums& sums, const std::vector<NamedParameter>& shared,
                                                 bool alone) {
  const auto all = gradients();
  const bool has_some = !shared.empty() && !alone;
  Gradients result{.found_inf = scaler_.unscale(all)};
  if (has_some && result.found_inf.defined())
    result.found_inf = context_.communicator.start_sum(result.found_inf).take().clamp_max_(1);
  call_watchers(&StepWatcher::gradients, parameters_);
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

void TrainStep::warm_up(const TrainBatch& batch) {
  compute(batch, 0, {.backward_only = true});
  is_warm_ = true;
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

void TrainStep::compute_alone(const Batch& batch, const Shown& shown) {
  const ScopeEnd without_gradients([this] { drop_gradients(); });
  const WithoutOthers without_others(*context_.model, statistics_);
  MetricSums unused;
  CountedMean counted(context_.communicator, {.alone = true});
  parallel_->refresh();
  const auto loss = forward({.batch = batch, .samples = batch.size()}, nullptr, counted, unused);
  loss.backward();
  parallel_->collect_gradients();
  if (shown) shown(loss.detach(), parameters_);
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

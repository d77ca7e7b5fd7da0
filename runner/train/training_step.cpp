// SPDX-License-Identifier: MIT
#include "train/training_step.h"

#include "data/sample_order.h"
#include "dist/replicate.h"
#include "plugin_host/plugin_call.h"
#include "train/gradient_clip.h"

#include <ddprun/error.h>

#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

ReducerOptions reducer_options(const TrainerConfig& config) {
  using Compression = ReducerOptions::Compression;
  ReducerOptions options{.find_unused_parameters = config.find_unused_parameters, .static_graph = config.static_graph};
  if (config.gradient_compression == "fp16") options.compression = Compression::kFp16;
  if (config.gradient_compression == "bf16") options.compression = Compression::kBf16;
  return options;
}

at::Tensor not_finite(const at::Tensor& number) { return number.isfinite().logical_not().to(at::kFloat); }

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

// Calls at the end of the scope, however it is left.
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

TrainingStep::TrainingStep(Parts parts, const TrainerConfig& config, Schedule schedule)
    : parts_(std::move(parts)),
      config_(config),
      schedule_(std::move(schedule)),
      parameters_(trainable_parameters(*parts_.model)),
      buffers_(buffers(*parts_.model)),
      shared_(*parts_.model, config.broadcast_buffers == "every_step"),
      mark_(parameters_),
      micro_batch_(std::max<int64_t>(config.micro_batch, 0)) {
  for (const auto& group : parts_.optimizer->groups()) base_rates_.push_back(group.lr);
  if (config.sync_batchnorm) statistics_ = synchronize_batch_norm(*parts_.model, parts_.communicator);
  if (!parts_.communicator.alone()) {
    reducer_ = std::make_unique<GradientReducer>(parameters_, parts_.communicator, reducer_options(config));
  }
  if (parts_.precision.scales_gradients()) set_scaler_state({.scale = config.loss_scale});
  if (config.ema_decay > 0) average_.emplace(parameters_, config.ema_decay);
  make_graphs();
}

void TrainingStep::set_scaler_state(const GradScaler::State& state) {
  if (parts_.precision.scales_gradients()) scaler_.emplace(state, parts_.device);
}

void TrainingStep::make_graphs() {
  const auto& wanted = config_.cuda_graph;
  if (wanted == "on" && !parts_.backend)
    throw UserError("trainer.cuda_graph: on needs a GPU, and this run has none; set it to auto");
  if (wanted == "off" || !parts_.backend) return;
  graphs_.emplace(StepGraphs::Parts{.backend = *parts_.backend,
                                    .communicator = parts_.communicator,
                                    .device = parts_.device,
                                    .clock = parts_.clock,
                                    .required = wanted == "on"});
  if (const auto reason = unrecordable(); !reason.empty()) graphs_->refuse(reason);
}

// Why steps cannot be recorded, as far as the settings tell.
std::string TrainingStep::unrecordable() {
  const bool several = !parts_.communicator.alone();
  if (parts_.parallel) return "trainer.strategy dp has several GPUs in one process";
  if (config_.sync_batchnorm) return "trainer.sync_batchnorm exchanges counts on the host";
  if (several && config_.find_unused_parameters) return "trainer.find_unused_parameters looks for them on the host";
  if (reducer_ && reducer_->through_host()) return "launch.backend gloo exchanges gradients through host memory";
  if (several && config_.gradient_compression != "none")
    return "trainer.gradient_compression works on streams of its own";
  if (!send_rates()) return "this optimizer, with these options, needs the host in its step";
  return "";
}

void TrainingStep::forget_graphs() {
  if (graphs_) graphs_->forget();
}

std::string TrainingStep::graph_state() const {
  if (graphs_) return graphs_->state();
  return parts_.backend ? "off" : "no GPU";
}

StepOutcome TrainingStep::run(const TrainBatch& item, int64_t step, bool watched) {
  auto computed = results(item, step, watched);
  if (scaler_) scaler_->count();
  StepOutcome outcome{.sums = std::move(computed.sums), .nonfinite = std::make_shared<LateFlag>(computed.nonfinite)};
  if (skips() && !scaler_) last_ = outcome.nonfinite;
  return outcome;
}

// The rates may depend on whether the step before counted, for which the host waits then: with graphs before the step, else as late
// as it can, when the GPU has more to do.
StepResults TrainingStep::results(const TrainBatch& item, int64_t step, bool watched) {
  const bool graphs = graphs_ && !graphs_->refused() && !watched;
  if (!graphs) return compute(item, {}, [&] { set_rates(step); });
  set_rates(step);
  return graphs_->run(item, [this](const TrainBatch& batch, const StepMode& mode) { return compute(batch, mode, {}); });
}

// What a graph holds: nothing in it may wait for the device, or depend on numbers of the host that are others in the next step.
StepResults TrainingStep::compute(const TrainBatch& item, const StepMode& mode, const std::function<void()>& rates) {
  const auto all = passes(item);
  recording_ = mode.recorded;
  const ScopeEnd done([this] { recording_ = false; });
  std::optional<OperatorLog::Listening> listening;
  if (mode.log) listening.emplace(*mode.log);
  const auto kept = skips() ? copies(buffers_) : std::vector<at::Tensor>();
  StepResults results;
  accumulate(all, &results.sums, mode.alone);
  results.nonfinite = update(results.sums, rates);
  const auto& nonfinite = results.nonfinite;
  for (size_t i = 0; i < kept.size(); ++i) buffers_[i].copy_(at::where(nonfinite.to(at::kBool), kept[i], buffers_[i]));
  return results;
}

int64_t TrainingStep::unapplied() {
  if (last_) unapplied_ += last_->raised() ? 1 : 0;
  last_.reset();
  return unapplied_;
}

void TrainingStep::set_unapplied(int64_t steps) {
  last_.reset();
  unapplied_ = steps;
}

void TrainingStep::rehearse(const TrainBatch& item) {
  accumulate(passes(item), nullptr);
  parts_.optimizer->zero_grad();
}

// Without the other ranks: one that runs out of memory would leave them waiting.
void TrainingStep::try_pass(const TrainBatch& item, int64_t samples) {
  const auto attach = [this](const auto& statistics) { attach_statistics(*parts_.model, statistics); };
  const bool synchronized = statistics_ && !parts_.communicator.alone();
  if (synchronized) attach(std::shared_ptr<BatchStatistics>());
  const ScopeEnd restore([&] {
    if (synchronized) attach(statistics_);
    parts_.optimizer->zero_grad();
  });
  if (parts_.parallel) parts_.parallel->refresh();
  forward({.batch = part_of_batch(item.batch, {0, samples}), .samples = samples}, nullptr).backward();
  if (parts_.parallel) parts_.parallel->collect_gradients();
}

// As many passes on every rank, decided by the largest part: the exchange belongs to each rank's last pass. A pass without a
// sample of its own borrows one and adds nothing.
std::vector<TrainingStep::Pass> TrainingStep::passes(const TrainBatch& item) const {
  const int64_t world = parts_.communicator.world().size;
  const int64_t largest = (item.global_samples + world - 1) / world;
  const int64_t count = micro_batch_ == 0 ? 1 : (largest + micro_batch_ - 1) / micro_batch_;
  const int64_t own = item.weight > 0 ? item.batch.size() : 0;
  std::vector<Pass> passes;
  for (int64_t i = 0; i < count; ++i) {
    const auto slice = part_of(own, i, count);
    const double share = own == 0 ? 0 : static_cast<double>(slice.size()) / static_cast<double>(own);
    passes.push_back({.batch = part_of_batch(item.batch, slice.size() > 0 ? slice : Slice{0, 1}),
                      .weight = item.weight * share,
                      .samples = slice.size()});
  }
  return passes;
}

void TrainingStep::accumulate(const std::vector<Pass>& passes, MetricSums* window, bool alone) {
  const bool exchanges = reducer_ && !alone;
  phase(StepPhase::kWait);
  if (exchanges) {
    reducer_->before_forward();
    parts_.communicator.broadcast(shared_.read_by_step());
  }
  if (parts_.parallel) parts_.parallel->refresh();
  for (size_t i = 0; i < passes.size(); ++i) {
    phase(StepPhase::kForward);
    const auto loss = forward(passes[i], window);
    phase(StepPhase::kBackward);
    if (exchanges && i + 1 == passes.size()) {
      reducer_->backward(loss, [this] { phase(StepPhase::kWait); });
    } else {
      loss.backward();
    }
  }
  if (parts_.parallel) parts_.parallel->collect_gradients();
}

// The loss to go back from: weighted and scaled.
at::Tensor TrainingStep::forward(const Pass& pass, MetricSums* window) {
  const auto batch = parts_.precision.converted(pass.batch);
  if (statistics_) statistics_->counts = pass.samples > 0;
  Step step;
  {
    const auto autocast = parts_.precision.autocast();
    step = parts_.parallel ? parts_.parallel->step(batch, parts_.objective)
                           : in_plugin({"model", "step"}, [&] { return parts_.model->step(batch, parts_.objective); });
  }
  mark_.set(step.loss);
  if (window) window->add(step, pass.samples);
  const auto loss = pass.weight == 1 ? step.loss : step.loss * pass.weight;
  return scaler_ ? scaler_->scaled(loss) : loss;
}

// Returns whether the step is nonfinite: float32 scalar on the device. `rates` sets the learning rates; null where they are set.
at::Tensor TrainingStep::update(MetricSums& sums, const std::function<void()>& rates) {
  phase(StepPhase::kOptimizer);
  const torch::NoGradGuard no_gradients;
  const auto all = gradients();
  at::Tensor overflow, norm;
  if (scaler_) overflow = scaler_->unscale(all);
  if (shown_to_) std::exchange(shown_to_, nullptr)(parameters_);
  if (config_.clip_norm > 0) {
    norm = clip_norm(all, config_.clip_norm);
    sums.add_number("grad_norm", scaler_ ? norm.nan_to_num(0, 0, 0) : norm);  // an overflow is told by its own count
  }
  if (!scaler_ && !norm.defined()) norm = gradient_norm(all);
  const auto nonfinite = not_finite(scaler_ ? sums.sum_of("loss") : norm);
  if (skips() && !scaler_) overflow = nonfinite;
  if (config_.clip_value > 0) clip_value(all, config_.clip_value);
  if (rates) rates();
  if (overflow.defined()) {
    in_plugin({"optimizer", "step_unless"}, [&] { parts_.optimizer->step_unless(overflow); });
  } else {
    in_plugin({"optimizer", "step"}, [&] { parts_.optimizer->step(); });
  }
  if (scaler_) scaler_->update();
  if (average_) average_->update(overflow);
  in_plugin({"optimizer", "zero_grad"}, [&] { parts_.optimizer->zero_grad(); });
  return nonfinite;
}

void TrainingStep::set_rates(int64_t step) {
  const int64_t applied = step - unapplied() - (scaler_ ? scaler_->overflows() : 0);
  auto& groups = parts_.optimizer->groups();
  for (size_t i = 0; i < groups.size(); ++i) groups[i].lr = schedule_.rate(base_rates_[i], applied);
  if (parts_.backend) send_rates();
}

bool TrainingStep::send_rates() {
  return in_plugin({"optimizer", "send_rates"}, [&] { return parts_.optimizer->send_rates(); });
}

NamedValues TrainingStep::rates() const {
  const auto& groups = parts_.optimizer->groups();
  NamedValues rates{{"lr", groups.front().lr}};
  for (size_t i = 1; i < groups.size(); ++i) {
    if (base_rates_[i] != base_rates_[0]) rates.emplace_back("lr_" + std::to_string(i), groups[i].lr);
  }
  return rates;
}

std::vector<at::Tensor> TrainingStep::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters_) {
    if (parameter.value.grad().defined()) gradients.push_back(parameter.value.grad());
  }
  return gradients;
}

}  // namespace ddprun

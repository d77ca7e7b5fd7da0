// SPDX-License-Identifier: MIT
#include "train/train_step.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "data/sample_order.h"
#include "plugin_host/plugin_call.h"
#include "train/gradient_clip.h"
#include "train/micro_batch_search.h"
#include "train/state_guard.h"

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

// A bool of the device: x - x is 0 for every number that is finite, NaN for the others.
at::Tensor not_finite(const at::Tensor& number) { return (number - number).ne(0); }

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
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

void require_loss(const at::Tensor& loss) {
  if (!loss.defined() || !loss.requires_grad())
    throw PluginMistake(
        {"model",
         "the loss of step() depends on no parameter: is there a detach(), an item() or a NoGradGuard on "
         "its way?"});
  if (loss.numel() != 1)
    throw PluginMistake({"model", log::text("the loss of step() is ", loss.sizes(),
                                            ": expected one number, the mean over the samples")});
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
  return "the loss does not depend on these parameters, so they are not trained, and several workers would end "
         "here: " +
         list +
         ". Use them in forward, or do not register them; trainer.find_unused_parameters=true says that it is meant";
}

// After the exchange: scaled, checked, clipped.
struct TrainStep::Gradients {
  at::Tensor checked;   // [n] float32, not all finite where the step is nonfinite
  at::Tensor overflow;  // float32: not 0 where there shall be no step; undefined: there is one
  at::Tensor skipped;   // bool, with trainer.on_nonfinite skip: the step leaves buffers as they were
};

TrainStep::TrainStep(Parts parts, const TrainerConfig& config, Schedule schedule)
    : parts_(std::move(parts)),
      config_(config),
      schedule_(std::move(schedule)),
      parameters_(trainable_parameters(*parts_.model)),
      buffers_(buffers(*parts_.model)),
      shared_(*parts_.model, config.broadcast_buffers == "every_step"),
      micro_batch_(std::max<int64_t>(config.micro_batch, 0)) {
  for (const auto& group : parts_.optimizer->groups()) base_rates_.push_back(group.lr);
  if (config.sync_batchnorm) statistics_ = synchronize_batch_norm(*parts_.model, parts_.communicator);
  if (!parts_.communicator.alone()) {
    reducer_ = std::make_unique<GradientReducer>(parameters_, parts_.communicator, reducer_options(config));
  }
  if (parts_.precision.scales_gradients()) set_scaler_state({.scale = config.loss_scale});
  if (skips_by_norm()) mark_.emplace(parameters_);
  if (config.ema_decay > 0) average_.emplace(parameters_, config.ema_decay);
  make_graphs();
}

void TrainStep::set_scaler_state(const GradScaler::State& state) {
  if (parts_.precision.scales_gradients()) scaler_.emplace(state, parts_.device);
}

void TrainStep::make_graphs() {
  const auto& wanted = config_.cuda_graph;
  if (wanted == "on" && !parts_.backend)
    throw UserError("trainer.cuda_graph: on needs a GPU, and this run has none; set it to auto");
  if (wanted == "off" || !parts_.backend) return;
  graphs_.emplace(CudaGraphs::Parts{.backend = *parts_.backend,
                                    .communicator = parts_.communicator,
                                    .device = parts_.device,
                                    .clock = parts_.clock,
                                    .required = wanted == "on"});
  if (const auto reason = unrecordable(); !reason.empty()) graphs_->refuse(reason);
}

// Why steps cannot be recorded, as far as the settings tell.
std::string TrainStep::unrecordable() {
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

void TrainStep::forget_graphs() {
  if (graphs_) graphs_->forget();
}

std::string TrainStep::graph_state() const {
  if (graphs_) return graphs_->state();
  return parts_.backend ? "off" : "no GPU";
}

StepOutcome TrainStep::run(const TrainBatch& item, int64_t step, bool watched) {
  auto computed = results(item, step, watched);
  if (scaler_) scaler_->count();
  StepOutcome outcome{.sums = std::move(computed.sums), .checked = std::make_shared<DeviceNumbers>(computed.checked)};
  if (skips_by_norm()) last_ = outcome.checked;
  return outcome;
}

// The rates may depend on whether the step before counted, for which the host waits then: with graphs before the step,
// else as late as it can, when the GPU has more to do.
StepResults TrainStep::results(const TrainBatch& item, int64_t step, bool watched) {
  const bool graphs = graphs_ && !graphs_->refused() && !watched;
  if (!graphs) return ordinary(item, {}, [&] { set_rates(step); });
  set_rates(step);
  return graphs_->run(item, [this](const TrainBatch& batch, const StepMode& mode) {
    return mode.recorded ? compute(batch, mode, {}) : ordinary(batch, mode, {});
  });
}

// Graphs keep the memory of their step for themselves. Where too little is left beside it, they go, and the step is
// done again: on one rank alone, for others would be in the middle of theirs.
StepResults TrainStep::ordinary(const TrainBatch& item, const StepMode& mode, const std::function<void()>& rates) {
  if (!graphs_ || !graphs_->any() || !parts_.communicator.alone()) return compute(item, mode, rates);
  try {
    StateGuard before(buffers_, parts_.backend);
    auto results = compute(item, mode, rates);
    before.let_go();
    return results;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error) || applied_) throw;
  }
  graphs_->refuse("an ordinary step finds too little memory beside the recorded ones");
  return compute(item, mode, rates);
}

// What a graph holds: nothing in it may wait for the device, or depend on numbers of the host that are others in the
// next step.
StepResults TrainStep::compute(const TrainBatch& item, const StepMode& mode, const std::function<void()>& rates) {
  const auto all = passes(item);
  recording_ = mode.recorded;
  applied_ = false;
  const ScopeEnd done([this] {
    recording_ = false;
    drop_gradients();
  });
  std::optional<OperatorLog::Listening> listening;
  if (mode.log) listening.emplace(*mode.log);
  const auto kept = skips() ? copies(buffers_) : std::vector<at::Tensor>();
  StepResults results;
  accumulate(all, &results.sums, mode.alone);
  if (!reducer_ && !std::exchange(looked_for_unused_, true)) tell_of_unused();
  phase(StepPhase::kOptimizer);
  const torch::NoGradGuard no_gradients;
  const auto gradients = finished_gradients(results.sums);
  apply(gradients, rates);
  for (size_t i = 0; gradients.skipped.defined() && i < kept.size(); ++i)
    buffers_[i].copy_(at::where(gradients.skipped, kept[i], buffers_[i]));
  results.checked = gradients.checked;
  return results;
}

// What ends a run of several workers would pass without a word in one of a single one.
void TrainStep::tell_of_unused() const {
  const auto unused = without_gradient(parameters_);
  if (!unused.empty() && !config_.find_unused_parameters) log::warn("model: " + unused_text(unused));
}

int64_t TrainStep::unapplied() {
  if (last_) unapplied_ += last_->all_finite() ? 0 : 1;
  last_.reset();
  return unapplied_;
}

void TrainStep::set_unapplied(int64_t steps) {
  last_.reset();
  unapplied_ = steps;
}

void TrainStep::rehearse(const TrainBatch& item) {
  const ScopeEnd done([this] { drop_gradients(); });
  accumulate(passes(item), nullptr);
}

// Without the other ranks: one that runs out of memory would leave them waiting.
void TrainStep::try_micro_batch(const TrainBatch& item, int64_t samples) {
  const auto attach = [this](const auto& statistics) { attach_statistics(*parts_.model, statistics); };
  const bool synchronized = statistics_ && !parts_.communicator.alone();
  if (synchronized) attach(std::shared_ptr<BatchStatistics>());
  const ScopeEnd restore([&] {
    if (synchronized) attach(statistics_);
    drop_gradients();
  });
  if (parts_.parallel) parts_.parallel->refresh();
  forward({.batch = part_of_batch(item.batch, {0, samples}), .samples = samples}, nullptr).backward();
  if (parts_.parallel) parts_.parallel->collect_gradients();
}

// As many passes on every rank, decided by the largest part: the exchange belongs to each rank's last pass. A pass
// without a sample of its own borrows one and adds nothing.
std::vector<TrainStep::Pass> TrainStep::passes(const TrainBatch& item) const {
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

void TrainStep::accumulate(const std::vector<Pass>& passes, MetricSums* window, bool alone) {
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
at::Tensor TrainStep::forward(const Pass& pass, MetricSums* window) {
  const auto batch = parts_.precision.converted(pass.batch);
  if (statistics_) statistics_->counts = pass.samples > 0;
  Step step;
  {
    const auto autocast = parts_.precision.autocast();
    step = parts_.parallel ? parts_.parallel->step(batch, parts_.objective)
                           : in_plugin({"model", "step"}, [&] { return parts_.model->step(batch, parts_.objective); });
  }
  require_loss(step.loss);
  if (mark_) mark_->set(step.loss);
  if (window) window->add(step, pass.samples);
  const auto loss = pass.weight == 1 ? step.loss : step.loss * pass.weight;
  return scaler_ ? scaler_->scaled(loss) : loss;
}

// Nothing but one norm of each gradient tells that they are finite, which the host looks at: the device needs an answer
// of its own only where it is to leave the step out.
TrainStep::Gradients TrainStep::finished_gradients(MetricSums& sums) {
  const auto all = gradients();
  Gradients result;
  if (scaler_) result.overflow = scaler_->unscale(all);
  if (shown_to_) std::exchange(shown_to_, nullptr)(parameters_);
  auto norms = scaler_ && config_.clip_norm == 0 ? std::vector<at::Tensor>() : norms_of(all);
  if (config_.clip_norm > 0 || skips_by_norm()) norms = {total_norm(norms)};
  if (config_.clip_norm > 0) {
    clip_norm(all, norms.front(), config_.clip_norm);
    sums.add_number("grad_norm",
                    scaler_ ? norms.front().nan_to_num(0, 0, 0) : norms.front());  // overflows have a count
  }
  if (config_.clip_value > 0) clip_value(all, config_.clip_value);
  if (skips_by_norm()) {
    result.skipped = not_finite(norms.front());
    result.overflow = result.skipped.to(at::kFloat);
  }
  if (scaler_) norms.clear();
  if (const auto loss = sums.loss(); loss.defined()) {
    norms.push_back(loss.to(at::kFloat));
    if (skips() && scaler_) result.skipped = not_finite(loss);
  }
  result.checked = norms.empty() ? at::zeros({0}, at::kFloat) : at::stack(norms);
  return result;
}

// `rates` sets the learning rates; null where they are set.
void TrainStep::apply(const Gradients& gradients, const std::function<void()>& rates) {
  if (rates) rates();
  applied_ = true;
  if (gradients.overflow.defined()) {
    in_plugin({"optimizer", "step_unless"}, [&] { parts_.optimizer->step_unless(gradients.overflow); });
  } else {
    in_plugin({"optimizer", "step"}, [&] { parts_.optimizer->step(); });
  }
  if (scaler_) scaler_->update();
  if (average_) average_->update(gradients.overflow);
}

// Undefined gradients cost the next backward nothing: it leaves its own in their place, where zeros would be added to.
void TrainStep::drop_gradients() {
  for (const auto& parameter : parameters_) parameter.value.mutable_grad().reset();
}

void TrainStep::with_memory_of_a_step(const std::function<void()>& trial) {
  const torch::NoGradGuard no_gradients;
  std::vector<at::Tensor> weights;  // on the host, where they take none of it
  for (const auto& parameter : parameters_) {
    weights.push_back(on_host(parameter.value));
    parameter.value.mutable_grad() = at::zeros_like(parameter.value.detach());
  }
  auto before = parts_.optimizer->state();
  for (auto& [name, tensor] : before) tensor = on_host(tensor);
  in_plugin({"optimizer", "step"}, [&] { parts_.optimizer->step(); });
  if (average_) average_->update({});
  drop_gradients();
  {
    const torch::AutoGradMode with_gradients(true);
    trial();
  }
  in_plugin({"optimizer", "load_state"}, [&] { parts_.optimizer->load_state(before); });
  if (average_) average_->load_state({});
  for (size_t i = 0; i < weights.size(); ++i) parameters_[i].value.copy_(weights[i]);
}

void TrainStep::set_rates(int64_t step) {
  const int64_t applied = step - unapplied() - (scaler_ ? scaler_->overflows() : 0);
  auto& groups = parts_.optimizer->groups();
  for (size_t i = 0; i < groups.size(); ++i) groups[i].lr = schedule_.rate(base_rates_[i], applied);
  if (parts_.backend) send_rates();
}

bool TrainStep::send_rates() {
  return in_plugin({"optimizer", "send_rates"}, [&] { return parts_.optimizer->send_rates(); });
}

NamedValues TrainStep::rates() const {
  const auto& groups = parts_.optimizer->groups();
  NamedValues rates{{"lr", groups.front().lr}};
  for (size_t i = 1; i < groups.size(); ++i) {
    if (base_rates_[i] != base_rates_[0]) rates.emplace_back("lr_" + std::to_string(i), groups[i].lr);
  }
  return rates;
}

std::vector<at::Tensor> TrainStep::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters_) {
    if (parameter.value.grad().defined()) gradients.push_back(parameter.value.grad());
  }
  return gradients;
}

}  // namespace ddprun

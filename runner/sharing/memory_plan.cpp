// SPDX-License-Identifier: MIT
#include "sharing/memory_plan.h"

#include "base/log.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/parameters.h>

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/core/Allocator.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>

namespace ddprun {

// LibTorch reports each allocation to it, as to its profiler.
class TensorMemory::Counter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device device) override {
    if (!device.is_cpu()) return;
    const auto now = now_ += size;
    for (auto peak = peak_.load(); now > peak && !peak_.compare_exchange_weak(peak, now);) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::atomic<int64_t> now_ = 0, peak_ = 0;
};

TensorMemory::TensorMemory()
    : counter_(std::make_shared<Counter>()), listening_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

TensorMemory::~TensorMemory() = default;

int64_t TensorMemory::now() const { return counter_->now_; }
int64_t TensorMemory::take_peak() { return counter_->peak_.exchange(counter_->now_); }
void TensorMemory::leave_out(int64_t bytes) { counter_->now_ -= bytes; }

namespace {

int64_t total_bytes(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// Of one group, and of matrices or of all else: optimizers may treat each of these otherwise.
using StateKind = std::pair<size_t, bool>;

// Calls for each parameter that is trained.
void for_each_trained(const Optimizer& optimizer, const std::function<void(StateKind, const NamedParameter&)>& call) {
  for (size_t group = 0; group < optimizer.groups().size(); ++group) {
    for (const auto& parameter : optimizer.groups()[group].parameters)
      if (parameter.value.requires_grad()) call({group, parameter.value.dim() > 1}, parameter);
  }
}

// What a parameter's state takes: tensors of its shape, and others.
struct StateForm {
  int64_t per_number = 0, others = 0;  // bytes
};

StateForm state_form_of(const NamedParameter& parameter, const OptimizerState& state) {
  StateForm form;
  for (const auto& [name, tensor] : state) {
    if (name.substr(0, name.rfind('/')) != parameter.name) continue;
    const bool is_like_it = tensor.numel() == parameter.value.numel() && tensor.dim() > 0;
    (is_like_it ? form.per_number : form.others) +=
        static_cast<int64_t>(is_like_it ? tensor.itemsize() : tensor.nbytes());
  }
  return form;
}

// Calls for each gradient, as soon as backward has computed it.
class GradientHooks {
 public:
  GradientHooks(const std::vector<NamedParameter>& parameters, const std::function<void(const at::Tensor&)>& call) {
    for (const auto& [name, value] : parameters)
      if (value.requires_grad())
        hooks_.emplace_back(value, value.register_hook([call](const at::Tensor& gradient) { call(gradient); }));
  }
  ~GradientHooks() {
    for (const auto& [value, hook] : hooks_) value.remove_hook(hook);
  }
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  std::vector<std::pair<at::Tensor, unsigned>> hooks_;
};

// Leaves out what backward leaves there for later ones, such as kernels' tables.
StepMemory memory_of(const std::function<at::Tensor(int64_t)>& loss_of, int64_t samples,
                     const std::vector<NamedParameter>& parameters) {
  TensorMemory memory;
  StepMemory found{.samples = samples};
  int64_t complete = 0;
  {
    const GradientHooks hooks(parameters, [&](const at::Tensor& gradient) {
      const auto bytes = static_cast<int64_t>(gradient.nbytes());
      memory.leave_out(bytes);  // from the next stretch on
      found.stretches.push_back({memory.take_peak(), std::exchange(complete, complete + bytes)});
    });
    const auto loss = loss_of(samples);
    found.forward = memory.now();
    in_plugin({"model", "backward"}, [&] { loss.backward(); });
  }
  found.stretches.push_back({memory.take_peak(), complete});
  const auto left = std::max<int64_t>(0, memory.now());
  for (auto& stretch : found.stretches) stretch.peak -= left;
  return found;
}

int64_t peak_of(const StepMemory& step) {
  return std::ranges::max(step.stretches, {}, &StepMemory::Stretch::peak).peak;
}

std::string size_text(int64_t bytes) {
  constexpr std::array kUnits{"bytes", "kB", "MB", "GB", "TB"};
  auto number = static_cast<double>(bytes);
  size_t unit = 0;
  for (; number >= 1000 && unit + 1 < kUnits.size(); ++unit) number /= 1000;
  std::ostringstream text;
  text << std::setprecision(number >= 100 ? 3 : 2) << number << " " << kUnits[unit];
  return text.str();
}

std::string parts_text(const MemoryPlan& plan) {
  auto text = "weights " + size_text(plan.weights) + ", gradients " + size_text(plan.gradients) + ", optimizer " +
              size_text(plan.optimizer);
  if (plan.averages > 0) text += ", averages " + size_text(plan.averages);
  if (plan.sharing > 1) text += log::text(" (shared by ", plan.sharing, " workers)");
  return text;
}

}  // namespace

int64_t optimizer_bytes(Optimizer& optimizer) {
  const torch::NoGradGuard no_gradients;
  std::map<StateKind, NamedParameter> smallest;
  for_each_trained(optimizer, [&](StateKind kind, const NamedParameter& parameter) {
    auto& known = smallest.try_emplace(kind, parameter).first->second;
    if (parameter.value.numel() < known.value.numel()) known = parameter;
  });
  for (const auto& [kind, parameter] : smallest)
    parameter.value.mutable_grad() = at::zeros_like(parameter.value.detach());
  in_plugin({"optimizer", "step"}, [&] { optimizer.step(); });
  const auto state = in_plugin({"optimizer", "state"}, [&] { return optimizer.state(); });
  int64_t bytes = 0;
  for_each_trained(optimizer, [&](StateKind kind, const NamedParameter& parameter) {
    const auto form = state_form_of(smallest.at(kind), state);
    bytes += form.per_number * parameter.value.numel() + form.others;
  });
  for (const auto& [kind, parameter] : smallest) parameter.value.mutable_grad().reset();
  return bytes;
}

MemoryPlan plan_memory(Model& model, Optimizer& optimizer, const TrainerConfig& config,
                       const std::function<at::Tensor(int64_t)>& loss_of) {
  const auto parameters = trainable_parameters(model);
  const auto without_gradients = [&] {
    for (const auto& parameter : parameters) parameter.value.mutable_grad().reset();
  };
  auto plan = held_memory(model, {}, {});
  for (const auto& [name, value] : parameters) {
    const auto wide = c10::elementSize(at::toOpMathType(value.scalar_type()));
    if (config.ema_decay > 0) plan.averages += value.numel() * static_cast<int64_t>(wide);
  }
  const auto measured = [&](int64_t samples) {
    without_gradients();
    return memory_of(loss_of, samples, parameters);
  };
  // The peak of few samples may be that of a large weight's gradient, which hides what a sample takes in backward.
  constexpr int64_t kFewest = 2, kMost = 4096, kMostBytes = 256'000'000;
  plan.steps.push_back(measured(kFewest));
  bool was_hidden = false;
  for (int64_t samples = 2 * kFewest;; samples *= 4) {
    plan.steps.push_back(measured(samples));
    const auto &few = plan.steps.rbegin()[1], &many = plan.steps.back();
    const bool is_hidden = peak_of(many) - peak_of(few) < many.forward - few.forward;
    if (!(is_hidden || was_hidden) || samples >= kMost || 4 * many.forward > kMostBytes) break;
    was_hidden = is_hidden;
  }
  without_gradients();
  plan.optimizer = optimizer_bytes(optimizer);
  plan.saved = plan.weights + plan.optimizer + plan.averages;
  return plan;
}

// Each stretch takes what lies on the line through two measurements, which many samples do not lie above: a maximum of
// straight lines is convex. Nothing takes less of each sample than what is kept when backward begins, before the first
// gradient.
Activations MemoryPlan::activations(int64_t samples) const {
  Activations most;
  if (steps.size() < 2) return most;
  auto upper =
      std::ranges::find_if(steps.begin() + 1, steps.end(), [&](const auto& step) { return step.samples >= samples; });
  if (upper == steps.end()) --upper;
  const auto &few = upper[-1], &many = *upper;
  for (size_t i = 0; i < std::min(few.stretches.size(), many.stretches.size()); ++i) {
    const auto& [peak, complete] = many.stretches[i];
    const auto rise = std::max(peak - few.stretches[i].peak, i == 0 ? many.forward - few.forward : 0);
    const auto per_sample = std::max<int64_t>(0, rise / (many.samples - few.samples));
    const auto bytes = std::max<int64_t>(0, peak + per_sample * (samples - many.samples));
    const auto with_gradients = std::max(most.with_gradients, bytes + complete);
    if (bytes > most.bytes) most = {.bytes = bytes, .per_sample = per_sample};
    most.with_gradients = with_gradients;
  }
  return most;
}

int64_t MemoryPlan::total(int64_t samples) const {
  const auto most = activations(samples);
  return keeps_gradients ? held() + most.bytes : held() - gradients + std::max(gradients, most.with_gradients);
}

void MemoryPlan::share(int64_t workers, double largest) {
  sharing = workers;
  for (auto* bytes : {&optimizer, &averages}) {
    const auto own = static_cast<int64_t>(std::ceil(static_cast<double>(*bytes) * largest));
    saved -= std::exchange(*bytes, own) - own;
  }
}

int64_t samples_at_once(const TrainerConfig& config, int64_t parts) {
  const auto global = config.global_batch_of(parts);
  const auto divided = [&](int64_t by) { return (global + by - 1) / by; };
  if (config.shards > 0) return divided(config.shards);
  const auto own = divided(parts);
  return config.micro_batch > 0 ? std::min(own, config.micro_batch) : own;
}

bool keeps_gradients(const TrainerConfig& config, int64_t parts) {
  return parts > 1 || config.shards > 0 || samples_at_once(config, parts) < config.global_batch_of(parts);
}

std::string text_of(const MemoryPlan& plan, int64_t samples) {
  const auto most = plan.activations(samples);
  auto text = size_text(plan.total(samples)) + ": " + parts_text(plan) +
              log::text(", activations ", size_text(most.bytes), " (", samples, samples == 1 ? " sample" : " samples",
                        " at once, ", size_text(most.per_sample), " each)");
  const auto gone = plan.held() + most.bytes - plan.total(samples);
  if (gone > 0) text += log::text(", of which ", size_text(gone), " go before all gradients are there");
  return text;
}

std::string saving_text(const MemoryPlan& plan) {
  const auto text = ", and " + size_text(plan.saved) + " more of worker 0 while it saves";
  return plan.sharing > 1 ? text + ", " + size_text(plan.optimizer + plan.averages) + " of each other" : text;
}

MemoryPlan held_memory(const Model& model, const OptimizerState& optimizer, const TensorDict& averages) {
  MemoryPlan plan{.weights = total_bytes(model.parameters()) + total_bytes(model.buffers())};
  for (const auto& [name, value] : trainable_parameters(model)) plan.gradients += static_cast<int64_t>(value.nbytes());
  for (const auto& [name, tensor] : optimizer) plan.optimizer += static_cast<int64_t>(tensor.nbytes());
  for (const auto& [name, tensor] : averages) plan.averages += static_cast<int64_t>(tensor.nbytes());
  return plan;
}

std::string held_text(const MemoryPlan& plan) { return size_text(plan.held()) + ": " + parts_text(plan); }

}  // namespace ddprun

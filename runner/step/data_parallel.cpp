// SPDX-License-Identifier: MIT
#include "step/data_parallel.h"

#include "comm/replicate.h"
#include "data/loader.h"
#include "metrics/metric_counts.h"
#include "metrics/metric_sums.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"
#include "step/counted_mean.h"

#include <ddprun/error.h>
#include <ddprun/fused_layers.h>

#include <ATen/ThreadLocalState.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

std::vector<at::Tensor> values(const std::vector<NamedParameter>& named) {
  std::vector<at::Tensor> values;
  for (const auto& entry : named) values.push_back(entry.value);
  return values;
}

// Moves a batch to the device; its index stays on the CPU.
Batch moved(Batch batch, c10::Device device) {
  batch.replace_tensors([&](const at::Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); });
  return batch;
}

void add(std::vector<MetricSum>& sums, const std::vector<MetricSum>& more, c10::Device device) {
  if (!std::ranges::equal(sums, more, {}, &MetricSum::name, &MetricSum::name)) {
    throw UserError(
        "model: step() reports other metrics on one device than on another: it must return the same names in the same "
        "order for every batch");
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i].sum = sums[i].sum.to(at::kDouble) + more[i].sum.to(device, at::kDouble);
    sums[i].count += more[i].count;
    if (sums[i].counted.defined() != more[i].counted.defined()) only_some_count();
    if (sums[i].counted.defined()) sums[i].counted = sums[i].counted + more[i].counted.to(device);
  }
}

// Returns the mean loss of all parts, each weighted by what counts in it, and sets how much that is together.
at::Tensor mean_loss(const std::vector<Step>& steps, at::Tensor& counted) {
  const auto device = counted.device();
  auto sum = steps.front().loss * counted;
  for (size_t i = 1; i < steps.size(); ++i) {
    sum = sum + (steps[i].loss * steps[i].counted).to(device);
    counted = counted + steps[i].counted.to(device);
  }
  return sum / counted.clamp_min(1);
}

// Returns the mean loss of all parts, each weighted by its samples.
at::Tensor mean_loss(const std::vector<Step>& steps, const std::vector<Batch>& parts, int64_t samples) {
  at::Tensor mean;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto part = steps[i].loss * (static_cast<double>(parts[i].size()) / static_cast<double>(samples));
    mean = mean.defined() ? mean + part.to(mean.device()) : part;
  }
  return mean;
}

// Merges the parts' steps into the whole batch's, on the first part's device.
Step merged(const std::vector<Step>& steps, const std::vector<Batch>& parts, int64_t samples) {
  if (steps.size() == 1) return steps.front();
  auto whole = steps.front();
  const auto device = whole.loss.device();
  const auto is_alike = [&](const Step& step) { return step.counted.defined() == whole.counted.defined(); };
  if (!std::ranges::all_of(steps, is_alike)) only_some_count();
  whole.loss = whole.counted.defined() ? mean_loss(steps, whole.counted) : mean_loss(steps, parts, samples);
  CountSums counts;
  counts.add(whole.counts);
  for (size_t i = 1; i < steps.size(); ++i) {
    add(whole.metrics, steps[i].metrics, device);
    counts.add(steps[i].counts);
  }
  whole.counts = counts.sums();
  return whole;
}

}  // namespace

// A thread that lasts until it is destroyed, since cuDNN remembers the fastest kernel for a convolution by thread. Used
// from one other thread, for one piece of work at a time.
class DataParallel::Thread {
 public:
  // Starts the work; what it throws comes out of the future.
  std::future<void> start(std::function<void()> work) {
    std::packaged_task<void()> task(std::move(work));
    auto end = task.get_future();
    {
      const std::scoped_lock lock(mutex_);
      next_ = std::move(task);
    }
    given_.notify_one();
    return end;
  }

 private:
  void run(const std::stop_token& stopped) {
    std::unique_lock lock(mutex_);
    while (given_.wait(lock, stopped, [this] { return next_.valid(); })) {
      auto task = std::exchange(next_, {});
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any given_;
  std::packaged_task<void()> next_;  // not valid if there is none
  // It is stopped and joined before the other members are destroyed.
  std::jthread thread_{[this](const std::stop_token& stopped) { run(stopped); }};
};

DataParallel::DataParallel(const std::vector<Copy>& copies) {
  for (const auto& [model, device] : copies) {
    verify_same_model(*copies.front().model, *model);
    lanes_.push_back({.model = model,
                      .device = device,
                      .state = values(state_tensors(*model)),
                      .parameters = values(trainable_parameters(*model)),
                      .thread = lanes_.empty() ? nullptr : std::make_unique<Thread>()});
  }
}

DataParallel::~DataParallel() = default;

std::vector<std::shared_ptr<Model>> DataParallel::models() const {
  std::vector<std::shared_ptr<Model>> models;
  for (const auto& lane : lanes_) models.push_back(lane.model);
  return models;
}

// Refreshes the copies. Drops gradients left by a micro-batch without collect_gradients(), as after one that ran out of
// memory.
void DataParallel::refresh() {
  const torch::NoGradGuard no_gradients;
  const auto& source = lanes_.front();
  for (auto& copy : copies()) {
    copy.model->train(source.model->is_training());
    for (size_t i = 0; i < copy.state.size(); ++i) copy.state[i].copy_(source.state[i], /*non_blocking=*/true);
    for (auto& parameter : copy.parameters) parameter.mutable_grad().reset();
  }
}

Step DataParallel::step(const Batch& batch, const Objective& objective) {
  if (devices() == 1) return call_step(*lanes_.front().model, batch, objective);
  const auto samples = batch.size();
  const auto used = std::min(devices(), samples);
  std::vector<Batch> parts;
  for (int64_t i = 0; i < used; ++i) {
    parts.push_back(moved(part_of_batch(batch, part_of(samples, i, used)), lanes_[i].device));
  }
  return merged(run(parts, objective), parts, samples);
}

// Runs the first part in this thread. The others use this thread's autocast, gradient mode and fused layers, and the
// streams that it works on.
std::vector<Step> DataParallel::run(const std::vector<Batch>& parts, const Objective& objective) {
  std::vector<Step> steps(parts.size());
  const at::ThreadLocalState state;
  const bool fused = fused_layers();
  std::vector<c10::Stream> streams;
  for (const auto& lane : lanes_) {
    streams.push_back(c10::impl::VirtualGuardImpl(lane.device.type()).getStream(lane.device));
  }
  const auto run_part = [&](size_t i) {
    const at::ThreadLocalStateGuard same_state(state);
    const FusedLayersScope same_layers(fused);
    const c10::StreamGuard on_stream(streams[i]);  // also sets its device
    steps[i] = call_step(*lanes_[i].model, parts[i], objective);
    for (auto& metric : steps[i].metrics) metric.sum = zero_if_none_counts(metric.sum, metric.counted);
  };
  std::packaged_task<void()> own([&] { run_part(0); });
  std::vector<std::future<void>> ends;
  ends.push_back(own.get_future());
  for (size_t i = 1; i < parts.size(); ++i) ends.push_back(lanes_[i].thread->start([&, i] { run_part(i); }));
  own();
  for (const auto& end : ends) end.wait();
  for (auto& end : ends) end.get();
  return steps;
}

void DataParallel::collect_gradients() {
  const torch::NoGradGuard no_gradients;
  const auto& target = lanes_.front();
  for (auto& copy : copies()) {
    for (size_t i = 0; i < copy.parameters.size(); ++i) {
      auto& gradient = copy.parameters[i].mutable_grad();
      if (!gradient.defined()) continue;
      auto& sum = target.parameters[i].mutable_grad();
      if (sum.defined()) {
        sum.add_(gradient.to(target.device));
      } else {
        sum = gradient.to(target.device);
      }
      gradient.reset();
    }
  }
}

}  // namespace ddprun

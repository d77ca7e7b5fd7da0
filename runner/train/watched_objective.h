// SPDX-License-Identifier: MIT
// The experiment's objective, which knows whether a model asks it for a loss: one with a step() of its own need not.
#pragma once

#include <ddprun/objective.h>

#include <atomic>
#include <memory>
#include <utility>

namespace ddprun {

class WatchedObjective final : public Objective {
 public:
  explicit WatchedObjective(std::unique_ptr<Objective> objective) : objective_(std::move(objective)) {}

  bool was_asked() const { return was_asked_.load(std::memory_order_relaxed); }

  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    was_asked_.store(true, std::memory_order_relaxed);
    return objective_->loss(prediction, target);
  }

  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    return objective_->metrics(prediction, target);
  }

  at::Tensor confusion(const at::Tensor& prediction, const at::Tensor& target) const override {
    return objective_->confusion(prediction, target);
  }

  at::Tensor scores(const at::Tensor& prediction) const override { return objective_->scores(prediction); }

 private:
  std::unique_ptr<Objective> objective_;
  mutable std::atomic<bool> was_asked_ = false;
};

}  // namespace ddprun

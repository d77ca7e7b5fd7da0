// SPDX-License-Identifier: MIT
// Gives the optimizer's groups the learning rate of each step: their own, times what the schedule, the group's lr_scale
// and callbacks make of it. Used from the training thread.
#pragma once

#include "metrics/metric_sums.h"
#include "step/schedule.h"

#include <ddprun/logger.h>
#include <ddprun/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun {

class LrPolicy {
 public:
  // Takes a started optimizer, whose lrs are the groups' own. `sends` says whether its step reads them on the device.
  LrPolicy(std::shared_ptr<Optimizer> optimizer, Schedule schedule, bool sends);

  // Sets the lrs of the step after `step` steps, once. `applied` returns how many of these moved the weights, which the
  // schedule counts; it may wait for the device, and is only asked if the lrs are not set yet.
  void set(int64_t step, const std::function<int64_t()>& applied);
  void forget() { set_for_ = -1; }  // the step is over, or begins again: the next set() sets them

  // Copies the lrs to the device for a step that reads them there. Returns whether this optimizer can.
  bool send();

  // Returns the lrs of the last step: "lr", and "lr_1", "lr_2" ... of the groups whose own lr differs from the first
  // one's. With pretrained.layer_decay they are those of the last layer.
  NamedValues values() const;

  void set_factor(double factor) { factor_ = factor; }  // of all lrs, besides the schedule
  Schedule& schedule() { return schedule_; }

 private:
  std::shared_ptr<Optimizer> optimizer_;
  Schedule schedule_;
  std::vector<double> own_;  // one per group
  double factor_ = 1;
  bool sends_;
  int64_t set_for_ = -1;
};

}  // namespace ddprun

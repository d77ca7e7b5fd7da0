// SPDX-License-Identifier: MIT
// Implements trainer.strategy dp: one process computes each micro-batch on several devices at once, as
// torch.nn.DataParallel does. Every device has a copy of the model and a part of the batch; losses, metrics and
// gradients come together on the first one, which has the model itself, the one that is optimized, evaluated and saved
// (docs/decisions/0008). On a single device it just calls the model.
//
// Used from the training thread. The copies' steps run in threads of their own, each always in the same one.
#pragma once

#include <ddprun/model.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddprun {

class DataParallel {
 public:
  struct Copy {
    std::shared_ptr<Model> model;  // on the device, in its precision
    c10::Device device;
  };

  // Takes the model first, then the copies made from the same options for the other devices. Throws UserError if one of
  // them is a different network.
  explicit DataParallel(const std::vector<Copy>& copies);
  ~DataParallel();

  // Returns the model, then its copies.
  std::vector<std::shared_ptr<Model>> models() const;

  int64_t devices() const { return static_cast<int64_t>(lanes_.size()); }

  // Copies the model's parameters, buffers and mode to the copies. Call it before the first micro-batch of an optimizer
  // step.
  void refresh();

  // Runs a micro-batch that lies on the first device, each device with a contiguous part of it; with fewer samples than
  // devices the last ones stay idle. Returns what the model alone would: the mean loss over the batch, attached to the
  // graphs of all copies, and the sums of their metrics. Buffers such as running statistics are those of the first
  // part. Rethrows what a copy threw once all have ended, the first device's if there are several.
  Step step(const Batch& batch, const Objective& objective);

  // Adds the copies' gradients to the model's, after the last backward of an optimizer step.
  void collect_gradients();

 private:
  class Thread;
  struct Lane {
    std::shared_ptr<Model> model;
    c10::Device device;
    std::vector<at::Tensor> state, parameters;  // everything that refresh() copies; those that may have a gradient
    std::unique_ptr<Thread> thread;             // null for the first, which the training thread computes
  };

  std::span<Lane> copies() { return std::span(lanes_).subspan(1); }
  std::vector<Step> run(const std::vector<Batch>& parts, const Objective& objective);

  std::vector<Lane> lanes_;
};

}  // namespace ddprun

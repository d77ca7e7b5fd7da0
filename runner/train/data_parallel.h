// SPDX-License-Identifier: MIT
// trainer.strategy dp: one process computes each pass on several devices at once, as torch.nn.DataParallel does. Every
// device has a copy of the model and a part of the batch; losses, metrics and gradients come together on the first one,
// which has the model itself: what is optimized, evaluated and saved (docs/decisions/0008). Of one device it is the
// model.
//
// Used from the training thread. The copies' steps run in threads of their own, each in the same one every time.
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

  // The model first, then what was made from the same options for the other devices. Throws UserError where one of them
  // is another network.
  explicit DataParallel(const std::vector<Copy>& copies);
  ~DataParallel();

  int64_t devices() const { return static_cast<int64_t>(lanes_.size()); }

  // Before the first pass of an optimizer step: the copies take the model's parameters, buffers and mode.
  void refresh();

  // One pass of a batch on the first device, each device with a contiguous part of it; fewer samples than devices leave
  // the last ones idle. Gives what the model alone would: the mean loss over the batch, attached to the graphs of all
  // copies, and the sums of their metrics. Buffers such as running statistics are those of the first part. Rethrows
  // what a copy threw once all have ended, the first device's where it is several.
  Step step(const Batch& batch, const Objective& objective);

  // After the last backward of an optimizer step: the copies' gradients are added to the model's.
  void collect_gradients();

 private:
  class Thread;
  struct Lane {
    std::shared_ptr<Model> model;
    c10::Device device;
    std::vector<at::Tensor> state, parameters;  // all that refresh() copies; what has a gradient
    std::unique_ptr<Thread> thread;             // none for the first, which the training thread computes
  };

  std::span<Lane> copies() { return std::span(lanes_).subspan(1); }
  std::vector<Step> run(const std::vector<Batch>& parts, const Objective& objective);

  std::vector<Lane> lanes_;
};

}  // namespace ddprun

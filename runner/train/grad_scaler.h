// SPDX-License-Identifier: MIT
// Keeps float16 gradients within range: the loss is multiplied by a scale, the gradients are divided by it, and a step
// whose gradients are not all finite is left out (Micikevicius et al.: "Mixed precision training", 2017; the rules are
// those of torch.amp.GradScaler).
//
// Gradients come in averaged over the ranks, so that an overflow on one is seen by all: every rank decides alike.
// Nothing here waits for a GPU but overflows(), and that for work of the step before. One that is not enabled does
// nothing: gradients of other types than float16 need no scale.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddprun {

// Numbers that a device computes, on their way to the host. Nothing waits for a GPU until somebody asks, and then only
// for the work up to them.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const at::Tensor& numbers);  // float32, of any shape

  std::span<const float> get();  // as long as this object lives
  bool all_finite();

 private:
  at::Tensor host_;
  std::optional<c10::Event> arrived_;  // on GPUs: host_ can be read
};

class GradScaler {
 public:
  // What a checkpoint keeps.
  struct State {
    double scale = 65536;
    int64_t steps_since_change = 0;
    int64_t overflows = 0;  // steps left out so far
  };

  GradScaler(const State& state, c10::Device device, bool enabled);

  bool enabled() const { return scale_.defined(); }

  at::Tensor scaled(const at::Tensor& loss) const { return enabled() ? loss * scale_ : loss; }

  // Divides the gradients in place. Returns whether one was not finite: 0 or 1, float32 scalar on the device; undefined
  // where there is no scale.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients);

  // After the step: half the scale after an overflow, twice after 2,000 steps without.
  void update();

  // After update(): counts the step where it overflowed. The only part of a step that is the host's.
  void count();

  // Steps left out so far.
  int64_t overflows();

  State state();  // waits for the device

 private:
  void settle();

  State initial_;  // the state, where it is not enabled

  at::Tensor scale_, since_change_, found_inf_;  // float32, int32, float32 scalars on the device
  std::optional<DeviceNumbers> last_found_inf_;  // on its way; none where it was read
  int64_t overflows_ = 0;
};

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Keeps float16 gradients within range: the loss is multiplied by a scale, the gradients are divided by it, and a step
// whose gradients are not all finite is skipped (Micikevicius et al.: "Mixed precision training", 2017; the rules are
// those of torch.amp.GradScaler).
//
// Gradients arrive averaged over the ranks, so that all see an overflow on one: every rank decides alike. Nothing here
// waits for a GPU except overflows(), and only for work of the previous step. A disabled scaler does nothing: gradients
// of other types than float16 need no scale.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun {

// Numbers computed by a device, on their way to the host. Nothing waits for a GPU until they are read, and then only
// for the work up to them.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const at::Tensor& numbers);  // [n] float64

  const at::Tensor& get();         // on the CPU
  bool all_finite(int64_t count);  // of the first ones
  bool are_there() const;          // whether get() waits for nothing

 private:
  at::Tensor host_;
  std::optional<c10::Event> arrived_;  // on GPUs: host_ can be read
};

class GradScaler {
 public:
  // The state that a checkpoint keeps.
  struct State {
    double scale = 65536;
    int64_t steps_since_change = 0;
    int64_t overflows = 0;  // steps skipped so far
  };

  GradScaler(const State& state, c10::Device device, bool enabled);

  bool enabled() const { return scale_.defined(); }

  at::Tensor scaled(const at::Tensor& loss) const { return enabled() ? loss * scale_ : loss; }

  // Divides the gradients in place. Returns whether one was not finite: 0 or 1, float32 scalar on the device; undefined
  // without a scale.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients);

  // Updates the scale after the step: halves it after an overflow, doubles it after 2,000 steps without.
  void update();

  // Counts the step if it overflowed, after update(). This is the only part of a step on the host.
  void count();

  // Returns the number of steps skipped so far.
  int64_t overflows();

  State state();  // waits for the device

 private:
  void settle();

  State initial_;  // the state of a disabled scaler

  at::Tensor scale_, since_change_, found_inf_;  // float32, int32, float32 scalars on the device
  std::optional<DeviceNumbers> last_found_inf_;  // on its way to the host; empty once read
  int64_t overflows_ = 0;
};

}  // namespace ddprun

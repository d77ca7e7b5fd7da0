// SPDX-License-Identifier: MIT
// The numbers that forward and backward compute with.
//
// - fp32: float32; convolutions on GPUs from Ampere on with 10 bits of fraction (TF32), as PyTorch has it by default
// - fp32_exact: float32, in convolutions too
// - tf32: float32, matrix products and convolutions with 10 bits of fraction (GPUs from Ampere on)
// - bf16: autocast: matrix products and convolutions in bfloat16, weights and losses in float32
// - fp16: the same in float16, with a gradient scaler
// - bf16_pure: weights and activations in bfloat16
#pragma once

#include "config/experiment.h"
#include "imaging/image_batcher.h"

#include <ddprun/batch.h>
#include <ddprun/model.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace ddprun {

// Autocast on this thread for a scope; nothing where there is no type.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, std::optional<c10::ScalarType> type);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool active_, was_enabled_ = false;
  c10::ScalarType former_type_ = c10::kFloat;
};

class Precision {
 public:
  Precision() = default;  // float32
  Precision(const TrainerConfig& config, c10::DeviceType device);

  // Of images and their filters; channels first until then.
  void set_memory_format(MemoryFormat memory_format) { memory_format_ = memory_format; }
  MemoryFormat memory_format() const { return memory_format_; }

  // Types and memory order of the weights; before the optimizer and the reducer see them.
  void convert(Model& model) const;
  // The same of a batch's input, and of what makes them so.
  ImageForm image_form() const {
    return {.channels_last = memory_format_ == MemoryFormat::kChannelsLast, .bf16 = pure_bf16_};
  }
  Batch converted(Batch batch) const;

  AutocastScope autocast() const { return {device_, autocast_}; }
  bool scales_gradients() const { return autocast_ == c10::kHalf; }

 private:
  c10::DeviceType device_ = c10::kCPU;
  std::optional<c10::ScalarType> autocast_;
  bool pure_bf16_ = false;
  MemoryFormat memory_format_ = MemoryFormat::kChannelsFirst;
};

// Sets what the whole process computes float32 products with. Call before the first one.
void set_product_precision(const TrainerConfig& config);

// A tensor of four dimensions with its numbers in this order; the tensor itself where they lie so. One channel lies the
// same in both, but kernels take the order from the strides: those are set in any case.
at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat memory_format);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Sets the number formats of forward and backward.
//
// - fp32: float32; on GPUs from Ampere on, convolutions round to 10 bits of fraction (TF32), PyTorch's default
// - fp32_exact: float32, in convolutions too
// - tf32: float32; matrix products and convolutions round to 10 bits of fraction (GPUs from Ampere on)
// - bf16: autocast: matrix products and convolutions in bfloat16, weights and losses in float32
// - fp16: autocast in float16, with a gradient scaler
// - bf16_pure: weights and activations in bfloat16
// - bf16_master: bf16_pure, with an optimizer that steps float32 copies of the weights (sharing/master_weights.h)
#pragma once

#include "config/experiment.h"
#include "imaging/image_batcher.h"

#include <ddprun/batch.h>
#include <ddprun/dataset.h>
#include <ddprun/model.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace ddprun {

// Enables autocast on this thread for a scope; does nothing without a type.
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

  // Sets the memory format of images and filters; channels first until then.
  void set_memory_format(MemoryFormat memory_format) { memory_format_ = memory_format; }
  MemoryFormat memory_format() const { return memory_format_; }

  // Converts the weights' types and memory format, before the optimizer and the reducer see them.
  void convert(Model& model) const;
  // Returns the same for a batch's input and extras.
  ImageForm image_form() const {
    return {.channels_last = memory_format_ == MemoryFormat::kChannelsLast, .bf16 = bf16_weights_};
  }
  Batch converted(Batch batch) const;

  AutocastScope autocast() const { return {device_, autocast_}; }
  bool scales_gradients() const { return autocast_ == c10::kHalf; }

 private:
  c10::DeviceType device_ = c10::kCPU;
  std::optional<c10::ScalarType> autocast_;
  bool bf16_weights_ = false;
  MemoryFormat memory_format_ = MemoryFormat::kChannelsFirst;
};

// Returns the memory format of `trainer.memory_format: auto`: channels last for networks that filter images, on CPUs
// and in the precisions that a GPU's tensor cores compute; else channels first. It is decided by these alone, so that
// equal experiments sum in equal order.
MemoryFormat suitable_memory_format(const Model& model, const DataSpec& data, PrecisionMode precision,
                                    c10::DeviceType device);

// Sets how the whole process computes float32 products. Call it before the first one.
void set_product_precision(const TrainerConfig& config);

// Returns a tensor of four dimensions in this memory format, or the tensor itself if it has it. A single channel is
// laid out the same in both, but kernels read the format from the strides, so those are always set.
at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat memory_format);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// What a dataset hands out and a model trains on.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// The parts of a dataset.
enum class Split { kTrain, kVal, kTest };

// Returns "train", "val" or "test", as in metrics, logs and the YAML.
DDPRUN_API const char* split_name(Split split);

// B samples. Tensors are on the worker's device when a model sees them, and on the CPU when a dataset returns them.
struct Batch {
  at::Tensor input;   // [B, ...] float32, or int64 if samples are sequences of symbols: [B, T] for text
  at::Tensor target;  // [B] int64 for classification; otherwise what the objective, or the model's own step(), takes
  at::Tensor index;   // [B] int64: the samples' numbers in their split; always on the CPU

  // The number of samples, B.
  int64_t size() const { return input.size(0); }
};

// What a model must know about the data to build its layers.
struct DataSpec {
  std::vector<int64_t> sample_shape = {};  // shape of one input, without the batch dimension: {1, 28, 28}
  int64_t classes = 0;                     // classes of a sample, or of each symbol of a text; 0 if the task has none
  std::vector<std::string> class_names = {};  // empty, or one per class
};

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// What a dataset hands out and a model trains on.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

enum class Split { kTrain, kVal, kTest };

// "train", "val" or "test": the word used in metrics, logs and the YAML.
DDPRUN_API const char* split_name(Split split);

// B samples. The tensors lie on the worker's device when a model sees them, on the CPU when a dataset returns them.
struct Batch {
  at::Tensor input;   // [B, ...] float32
  at::Tensor target;  // [B] int64 for classification; whatever the objective takes otherwise
  at::Tensor index;   // [B] int64: the samples' numbers in their split; always on the CPU

  int64_t size() const { return input.size(0); }
};

// What a model must know of the data to build its layers.
struct DataSpec {
  std::vector<int64_t> sample_shape;     // of one input, without the batch dimension: {1, 28, 28}
  int64_t classes = 0;                   // 0 where the task is no classification
  std::vector<std::string> class_names;  // empty, or one for each class
};

}  // namespace ddprun

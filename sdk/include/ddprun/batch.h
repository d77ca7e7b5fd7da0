// SPDX-License-Identifier: MIT
// What a dataset hands out and a model trains on.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// The parts of a dataset.
enum class Split { kTrain, kVal, kTest };

// Returns "train", "val" or "test", as in metrics, logs and the YAML.
DDPRUN_API const char* split_name(Split split);

// B samples. Tensors are on the worker's device when a model sees them, and on the CPU when a dataset returns them.
// Copies of a batch share its tensors: who changes one replaces it, unless the batch is its own.
struct Batch {
  at::Tensor input;   // [B, ...] float32, or int64 if samples are sequences of symbols: [B, T] for text
  at::Tensor target;  // [B] int64 for classification, [B, T] for a class per symbol, [B, H, W] for a class per pixel of
                      // an input [B, C, H, W], [B, D, H, W] per voxel of [B, C, D, H, W]; otherwise what the objective,
                      // or the model's own step(), takes
  at::Tensor index;   // [B] int64: the samples' numbers in their split; always on the CPU
  // What a sample has besides, by name: [B, ...] each, such as a mask. DataSpec::extras promises the names and shapes;
  // the type is float32, int64 or bool, the same in all batches. They go wherever the input goes.
  std::map<std::string, at::Tensor> extras = {};

  // The number of samples, B.
  int64_t size() const { return input.size(0); }

  // Returns the extra of this name. Throws UserError if there is none, naming those that there are.
  DDPRUN_API const at::Tensor& extra(const std::string& name) const;

  // Returns input, target and extras with their names.
  DDPRUN_API std::vector<std::pair<std::string, at::Tensor>> tensors() const;

  // Replaces input, target and each of the extras by make(tensor). An undefined one stays so; the index stays as it is.
  template <class Make>
  void replace_tensors(Make&& make) {
    if (input.defined()) input = make(input);
    if (target.defined()) target = make(target);
    for (auto& [name, tensor] : extras) {
      if (tensor.defined()) tensor = make(tensor);
    }
  }
};

// What a model must know about the data to build its layers.
struct DataSpec {
  std::vector<int64_t> sample_shape = {};  // shape of one input, without the batch dimension: {1, 28, 28}
  int64_t classes = 0;  // classes of a sample, of each symbol or of each pixel; 0 if the task has none
  std::vector<std::string> class_names = {};  // empty, or one per class
  // The shape of one sample's extra, without the batch dimension, for each name in Batch::extras; {} is one number.
  std::map<std::string, std::vector<int64_t>> extras = {};
  // Of these extras a model must take one at least, or it would read its input wrongly: a mask. Empty: it need not.
  std::vector<std::string> masks = {};
};

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "image_network.h"

#include <ddprun/error.h>

#include <torch/nn/init.h>
#include <torch/types.h>

namespace ddprun {
namespace {

// One-channel pictures are often saved without a channel dimension.
std::string hint(const std::vector<int64_t>& shape) {
  return c10::str("; save pictures of one channel as [N, 1, ", shape[0], ", ", shape[1], "]");
}

}  // namespace

void require_images(const DataSpec& data, std::string_view model, int64_t smallest) {
  if (data.classes < 1) throw UserError(c10::str(model, " is a classifier, but the dataset has no classes"));
  const auto& shape = data.sample_shape;
  if (shape.size() == 3 && shape[0] >= 1 && shape[1] >= smallest && shape[2] >= smallest) return;
  throw UserError(c10::str(model, " takes images [channels, height, width] of at least ", smallest, " x ", smallest,
                           ", but the dataset's samples are ", at::IntArrayRef(shape),
                           shape.size() == 2 ? hint(shape) : ""));
}

torch::nn::Conv2d he_convolution(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride, int64_t groups) {
  torch::nn::Conv2d convolution(
      torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false));
  torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
  return convolution;
}

at::Tensor global_average(const at::Tensor& input) { return input.mean({2, 3}); }

}  // namespace ddprun

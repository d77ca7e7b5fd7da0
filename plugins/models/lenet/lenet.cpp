// SPDX-License-Identifier: MIT
// Two 5x5 convolutions, each with pooling, and two linear layers: the shape of LeCun et al., "Gradient-based learning
// applied to document recognition" (1998), with ReLUs, in the widths of the common MNIST guides for distributed
// training. Module names are the guides', so their weights fit.
#include "../images/image_network.h"

#include <ddprun/model.h>
#include <ddprun/pooling.h>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace {

// Returns the side of an image after both convolutions and poolings.
int64_t pooled_twice(int64_t side) { return ((side - 4) / 2 - 4) / 2; }

class LeNet final : public ddprun::Model {
 public:
  explicit LeNet(ddprun::Options& options)
      : channels_(options.get<std::vector<int64_t>>("channels", {20, 50}, "filters of the two convolutions",
                                                    {.min = 1, .max = 1 << 16})),
        hidden_(options.get<int64_t>("hidden", 500, "units of the first linear layer", {.min = 1, .max = 1 << 20})) {
    if (channels_.size() == 2) return;
    options.reject("channels", "expected two numbers, as in [20, 50]");
    channels_ = {20, 50};
  }

  void prepare(const ddprun::DataSpec& data) override {
    ddprun::require_images(data, "lenet", 16);
    const auto& shape = data.sample_shape;
    const auto pooled = pooled_twice(shape[1]) * pooled_twice(shape[2]);
    conv1_ = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape[0], channels_[0], 5)));
    conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels_[0], channels_[1], 5)));
    fc1_ = register_module("fc1", torch::nn::Linear(pooled * channels_[1], hidden_));
    fc2_ = register_module("fc2", torch::nn::Linear(hidden_, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const auto x = ddprun::max_pool_relu(conv2_(ddprun::max_pool_relu(conv1_(input))));
    return fc2_(fc1_(x.flatten(1)).relu_());  // [B, classes]
  }

 private:
  std::vector<int64_t> channels_;
  const int64_t hidden_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

}  // namespace

DDPRUN_MODEL(LeNet, "lenet", "two 5x5 convolutions with pooling, two linear layers")

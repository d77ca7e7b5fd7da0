// SPDX-License-Identifier: MIT
#include "once_differentiable.h"
#include "pooling_loops.h"

#include <ddprun/pooling.h>

#include <ATen/ops/max_pool2d.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

namespace ddprun {
namespace {

class MaxPoolRelu : public torch::autograd::Function<MaxPoolRelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    RECORD_FUNCTION("ddprun::max_pool_relu", {});
    const Channels one(static_cast<size_t>(input.size(1)), 1), zero(one.size(), 0);
    const auto pooled = pool(input, one);
    context->save_for_backward({pooled.places});
    context->saved_data["sizes"] = input.sizes();
    return scale_and_cut(pooled, one, zero);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    RECORD_FUNCTION("ddprun::max_pool_relu_backward", {});
    require_once_differentiable("max_pool_relu");
    return {spread(in_channels_last(gradients[0]), context->get_saved_variables()[0],
                   context->saved_data["sizes"].toIntVector())};
  }
};

}  // namespace

at::Tensor max_pool_relu(const at::Tensor& input) {
  if (can_pool_in_one_pass(input)) return MaxPoolRelu::apply(input);
  return at::max_pool2d(input, 2).relu_();
}

}  // namespace ddprun

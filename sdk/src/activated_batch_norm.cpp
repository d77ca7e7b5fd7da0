// SPDX-License-Identifier: MIT
#include "activated_batch_norm.h"

#include "once_differentiable.h"

#include <ddprun/fused_layers.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace ddprun {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Optional = std::optional<at::Tensor>;

// Only the GPU backend has kernels (cuda_batch_norm.cpp says what they return).
TORCH_LIBRARY_FRAGMENT(ddprun, library) {
  library.def(
      "batch_norm_relu(Tensor images, Tensor weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) "
      "running_variance, float momentum, float eps) -> (Tensor, Tensor, Tensor)");
  library.def(
      "batch_norm_relu_backward(Tensor gradient, Tensor images, Tensor weight, Tensor? bias, Tensor mean, Tensor "
      "inverse_deviation) -> (Tensor, Tensor, Tensor)");
  for (const auto* name : {"batch_norm_relu", "batch_norm_relu_backward"})
    library.impl(name, c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough());
}

c10::OperatorHandle operation(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

const c10::OperatorHandle& forward_operation() {
  static const auto found = operation("ddprun::batch_norm_relu");
  return found;
}

class ActivatedBatchNorm : public torch::autograd::Function<ActivatedBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const Optional& bias, const NormState& state) {
    static const auto kernel = forward_operation()
                                   .typed<Three(const at::Tensor&, const at::Tensor&, const Optional&,
                                                const at::Tensor&, const at::Tensor&, double, double)>();
    const auto [output, mean, inverse_deviation] =
        kernel.call(input, weight, bias, state.running_mean, state.running_var, state.momentum, state.eps);
    context->save_for_backward({input, weight, bias.value_or(at::Tensor()), mean, inverse_deviation});
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto kernel = operation("ddprun::batch_norm_relu_backward")
                                   .typed<Three(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                const Optional&, const at::Tensor&, const at::Tensor&)>();
    require_once_differentiable("BatchNorm::relu");
    const auto saved = context->get_saved_variables();
    const auto bias = saved[2].defined() ? Optional(saved[2]) : std::nullopt;
    const auto [of_input, of_weight, of_bias] = kernel.call(gradients[0].contiguous(at::MemoryFormat::ChannelsLast),
                                                            saved[0], saved[1], bias, saved[3], saved[4]);
    return {of_input, of_weight, bias ? of_bias : at::Tensor(), {}};
  }
};

}  // namespace

bool can_activate_in_one_pass(const at::Tensor& input, const NormState& state) {
  constexpr int64_t kChannelsOfALoad = 4;
  constexpr uintptr_t kBytesOfALoad = 8;
  const auto type = input.scalar_type();
  return fused_layers() && input.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) && input.dim() == 4 &&
         input.numel() > 0 && input.size(1) % kChannelsOfALoad == 0 &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         reinterpret_cast<uintptr_t>(input.const_data_ptr()) % kBytesOfALoad == 0 &&
         state.running_mean.scalar_type() == at::kFloat &&
         forward_operation().hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

at::Tensor activated_batch_norm(const at::Tensor& input, const NormState& state) {
  const auto bias = state.bias.defined() ? Optional(state.bias) : std::nullopt;
  return ActivatedBatchNorm::apply(input, state.weight, bias, state);
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Batch normalisation as LibTorch asks it of cuDNN, and the parts that batch normalisation over several GPUs is made
// of: by what native_functions.yaml and torch/nn/modules/_functions.py say of each. Shapes: C channels in dimension 1
// of the input.
#include "pretend_gpu/operators/operator.h"

#include <ATen/ATen.h>

namespace pretend {
namespace {

std::vector<int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < input.dim(); ++i) dims.push_back(i);
  return dims;
}

// [C] as [1, C, 1, ...]
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<int64_t> sizes(static_cast<size_t>(input.dim()), 1);
  sizes[1] = values.numel();
  return values.view(sizes);
}

// (input, weight, bias?, running_mean?, running_var?, training, momentum, eps) -> (output, mean, inverse deviation,
// reserve)
void cudnn_batch_norm(Stack& stack, uint64_t) {
  auto [out, mean, deviation] = at::native_batch_norm(
      stack[0].toTensor(), tensor_or_none(stack[1]), tensor_or_none(stack[2]), tensor_or_none(stack[3]),
      tensor_or_none(stack[4]), stack[5].toBool(), stack[6].toDouble(), stack[7].toDouble());
  give(stack, out, mean, deviation, at::empty({0}, at::kByte));
}

// (input, grad_output, weight, running_mean?, running_var?, save_mean?, save_var?, eps, reserve) -> gradients
void cudnn_batch_norm_backward(Stack& stack, uint64_t) {
  auto [input, weight, bias] =
      at::native_batch_norm_backward(stack[1].toTensor(), stack[0].toTensor(), tensor_or_none(stack[2]),
                                     tensor_or_none(stack[3]), tensor_or_none(stack[4]), tensor_or_none(stack[5]),
                                     tensor_or_none(stack[6]), true, stack[7].toDouble(), {true, true, true});
  give(stack, input, weight, bias);
}

// (input, eps) -> (mean, inverse deviation), [C] each
void batch_norm_stats(Stack& stack, uint64_t) {
  const auto input = stack[0].toTensor().to(at::kFloat);
  const auto dims = all_but_channels(input);
  give(stack, input.mean(dims), (input.var(dims, /*unbiased=*/false) + stack[1].toDouble()).rsqrt());
}

// (input, weight?, bias?, mean, invstd, eps) -> output
void batch_norm_elemt(Stack& stack, uint64_t) {
  const auto given = stack[0].toTensor(), input = given.to(at::kFloat);
  const auto weight = tensor_or_none(stack[1]), bias = tensor_or_none(stack[2]);
  auto out = (input - by_channel(stack[3].toTensor(), input)) * by_channel(stack[4].toTensor(), input);
  if (weight.defined()) out = out * by_channel(weight, input);
  if (bias.defined()) out = out + by_channel(bias, input);
  give(stack, out.to(given.scalar_type()).contiguous(given.suggest_memory_format()));
}

// (input, mean, invstd, running_mean?, running_var?, momentum, eps, counts) -> (mean, invstd): of N ranks' statistics,
// [N, C] and [N]
void batch_norm_gather_stats_with_counts(Stack& stack, uint64_t) {
  const auto means = stack[1].toTensor(), deviations = stack[2].toTensor();
  auto running_mean = tensor_or_none(stack[3]), running_variance = tensor_or_none(stack[4]);
  const double momentum = stack[5].toDouble(), eps = stack[6].toDouble();
  const auto counts = stack[7].toTensor().view({-1, 1}).to(means.scalar_type());
  const auto total = counts.sum();
  const auto mean = (means * counts).sum(0) / total;
  const auto variances = deviations.pow(-2) - eps;
  const auto variance = ((variances + (means - mean).square()) * counts).sum(0) / total;
  if (running_mean.defined()) running_mean.lerp_(mean.to(running_mean.scalar_type()), momentum);
  if (running_variance.defined()) {
    running_variance.lerp_((variance * total / (total - 1)).to(running_variance.scalar_type()), momentum);
  }
  give(stack, mean, (variance + eps).rsqrt());
}

// (grad_out, input, mean, invstd, weight?, input_g, weight_g, bias_g) -> (sum_dy, sum_dy_xmu, grad_weight, grad_bias),
// [C] each
void batch_norm_backward_reduce(Stack& stack, uint64_t) {
  const auto gradient = stack[0].toTensor().to(at::kFloat), input = stack[1].toTensor().to(at::kFloat);
  const auto dims = all_but_channels(input);
  const auto sum = gradient.sum(dims), moment = (gradient * (input - by_channel(stack[2].toTensor(), input))).sum(dims);
  give(stack, sum, moment, moment * stack[3].toTensor(), sum.clone());
}

// (grad_out, input, mean, invstd, weight?, sum_dy, sum_dy_xmu, count) -> grad_input
void batch_norm_backward_elemt(Stack& stack, uint64_t) {
  const auto given = stack[1].toTensor(), input = given.to(at::kFloat), gradient = stack[0].toTensor().to(at::kFloat);
  const auto mean = stack[2].toTensor(), deviation = stack[3].toTensor(), weight = tensor_or_none(stack[4]);
  const auto total = stack[7].toTensor().sum().to(at::kFloat);
  const auto shift = by_channel(stack[5].toTensor() / total, input);
  const auto slope = by_channel(deviation.square() * stack[6].toTensor() / total, input);
  auto out = (gradient - shift - (input - by_channel(mean, input)) * slope) * by_channel(deviation, input);
  if (weight.defined()) out = out * by_channel(weight, input);
  give(stack, out.to(given.scalar_type()).contiguous(given.suggest_memory_format()));
}

}  // namespace

Substitute batch_norm_substitute(std::string_view name) {
  if (name == "aten::cudnn_batch_norm") return cudnn_batch_norm;
  if (name == "aten::cudnn_batch_norm_backward") return cudnn_batch_norm_backward;
  if (name == "aten::batch_norm_stats") return batch_norm_stats;
  if (name == "aten::batch_norm_elemt") return batch_norm_elemt;
  if (name == "aten::batch_norm_gather_stats_with_counts") return batch_norm_gather_stats_with_counts;
  if (name == "aten::batch_norm_backward_reduce") return batch_norm_backward_reduce;
  if (name == "aten::batch_norm_backward_elemt") return batch_norm_backward_elemt;
  return nullptr;
}

}  // namespace pretend

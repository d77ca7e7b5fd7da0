// SPDX-License-Identifier: MIT
// The operators of BatchNorm::relu() (sdk/src/activated_batch_norm.h) on GPUs. Part of the GPU backend's library.
#include "imaging/cuda_kernels.h"
#include "imaging/kernel_compiler.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace ddprun {
namespace {

constexpr int kWide = 4;  // channels of a load; matches batch_norm_kernels.cu, as kThreads does

// What an H100 is fastest with: four blocks on each of its 132 multiprocessors.
constexpr int64_t kBlocks = 528, kMostWidth = 32, kLeastRows = 4;

struct Table {
  long long rows;
  int columns, width, chunks;

  explicit Table(const at::Tensor& images)
      : rows(images.numel() / images.size(1)),
        columns(static_cast<int>(images.size(1) / kWide)),
        width(static_cast<int>(std::min<int64_t>(columns & -columns, kMostWidth))),
        chunks(static_cast<int>(std::clamp<int64_t>(rows * width / (kThreads * kLeastRows), 1,
                                                    std::max<int64_t>(kBlocks * width / columns, 1)))) {}

  int64_t blocks() const { return static_cast<int64_t>(columns / width) * chunks; }
};

// The kernels for one GPU, compiled at their first use.
struct NormKernels {
  explicit NormKernels(c10::Device device) : kernels(kBatchNormKernels, device) {}

  CudaKernels kernels;
  cudaKernel_t sum_inputs = kernels.find("sum_inputs"), take_statistics = kernels.find("take_statistics"),
               normalize = kernels.find("normalize"), sum_gradients = kernels.find("sum_gradients"),
               take_gradients = kernels.find("take_gradients"), spread_gradients = kernels.find("spread_gradients");
};

// What a pass over images needs; makes their GPU the current one.
struct Pass {
  c10::cuda::CUDAGuard guard;
  const NormKernels& kernels;
  Table table;
  bool half;
  at::Tensor partial;  // sums of chunks: [chunks, 2, channels]

  explicit Pass(const at::Tensor& images)
      : guard(images.device()),
        kernels(kernels_of<NormKernels>(images.device())),
        table(images),
        half(images.scalar_type() == at::kHalf),
        partial(at::empty({table.chunks, 2, images.size(1)}, images.options().dtype(at::kFloat))) {}
};

const float* numbers_of(const std::optional<at::Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<float>() : nullptr;
}

// Returns the output, and the mean and the inverse deviation of each channel.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_relu(const at::Tensor& images, const at::Tensor& weight,
                                                               const std::optional<at::Tensor>& bias,
                                                               const at::Tensor& running_mean,
                                                               const at::Tensor& running_variance, double momentum,
                                                               double eps) {
  const Pass pass(images);
  const auto& [guard, kernels, table, half, partial] = pass;
  auto mean = at::empty_like(weight), inverse_deviation = at::empty_like(weight), out = at::empty_like(images);
  const auto* x = images.const_data_ptr();
  auto* sums = partial.mutable_data_ptr<float>();
  auto *means = mean.mutable_data_ptr<float>(), *inverse = inverse_deviation.mutable_data_ptr<float>();
  launch(kernels.sum_inputs, table.blocks(), kThreads, table, x, sums, half);
  launch(kernels.take_statistics, table.columns, kThreads, table, x, sums, eps, momentum, means, inverse,
         running_mean.mutable_data_ptr<float>(), running_variance.mutable_data_ptr<float>(), half);
  launch(kernels.normalize, table.blocks(), kThreads, table, x, weight.const_data_ptr<float>(), numbers_of(bias), means,
         inverse, out.mutable_data_ptr(), half);
  return {out, mean, inverse_deviation};
}

// Returns the gradients of the images, the weight and the bias. `gradient` is laid out as the images are.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_relu_backward(
    const at::Tensor& gradient, const at::Tensor& images, const at::Tensor& weight,
    const std::optional<at::Tensor>& bias, const at::Tensor& mean, const at::Tensor& inverse_deviation) {
  const Pass pass(images);
  const auto& [guard, kernels, table, half, partial] = pass;
  auto of_weight = at::empty_like(weight), of_bias = at::empty_like(weight), of_images = at::empty_like(images);
  const auto *dy = gradient.const_data_ptr(), *x = images.const_data_ptr();
  const auto *factors = weight.const_data_ptr<float>(), *offsets = numbers_of(bias);
  const auto *means = mean.const_data_ptr<float>(), *inverse = inverse_deviation.const_data_ptr<float>();
  auto* sums = partial.mutable_data_ptr<float>();
  auto *weights = of_weight.mutable_data_ptr<float>(), *biases = of_bias.mutable_data_ptr<float>();
  launch(kernels.sum_gradients, table.blocks(), kThreads, table, dy, x, factors, offsets, means, inverse, sums, half);
  launch(kernels.take_gradients, table.columns, kThreads, table, sums, inverse, weights, biases);
  launch(kernels.spread_gradients, table.blocks(), kThreads, table, dy, x, factors, offsets, means, inverse, weights,
         biases, of_images.mutable_data_ptr(), half);
  return {of_images, of_weight, of_bias};
}

TORCH_LIBRARY_IMPL(ddprun, CUDA, library) {
  library.impl("batch_norm_relu", batch_norm_relu);
  library.impl("batch_norm_relu_backward", batch_norm_relu_backward);
}

}  // namespace
}  // namespace ddprun

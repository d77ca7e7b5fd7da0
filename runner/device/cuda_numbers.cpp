// SPDX-License-Identifier: MIT
// The operators of metrics/packed.h and <ddprun/objective.h> on GPUs. Part of the GPU backend's library.
#include "imaging/cuda_kernels.h"
#include "imaging/kernel_compiler.h"

#include <ddprun/objective.h>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <vector>

namespace ddprun {
namespace {

// The kernels for one GPU, compiled at their first use.
struct NumberKernels {
  explicit NumberKernels(c10::Device device) : kernels(kNumberKernels, device) {}

  CudaKernels kernels;
  cudaKernel_t pack = kernels.find("pack_numbers"), count_correct = kernels.find("count_correct_float");
};

// Matches number_kernels.cu. A kernel's arguments have room for 4 KB.
struct Numbers {
  static constexpr int kMost = 320;
  std::array<const void*, kMost> place;
  std::array<char, kMost> type;
};

char type_of(const at::Tensor& number) {
  switch (number.scalar_type()) {
    case at::kFloat: return 'f';
    case at::kDouble: return 'd';
    case at::kLong: return 'l';
    default: return 0;
  }
}

at::Tensor packed_on_gpu(at::TensorList given) {
  const auto device = given.front().device();
  const c10::cuda::CUDAGuard guard(device);
  std::vector<at::Tensor> numbers(given.begin(), given.end());
  for (auto& number : numbers) {
    if (type_of(number) == 0) number = number.to(at::kDouble);
  }
  const auto packed = at::empty({static_cast<int64_t>(numbers.size())}, at::TensorOptions(device).dtype(at::kDouble));
  for (size_t begin = 0; begin < numbers.size(); begin += Numbers::kMost) {
    Numbers some{};
    const int count = static_cast<int>(std::min<size_t>(Numbers::kMost, numbers.size() - begin));
    for (int i = 0; i < count; ++i) {
      const auto& number = numbers[begin + static_cast<size_t>(i)];
      some.place[static_cast<size_t>(i)] = number.const_data_ptr();
      some.type[static_cast<size_t>(i)] = type_of(number);
    }
    double* out = packed.mutable_data_ptr<double>() + begin;
    launch(kernels_of<NumberKernels>(device).pack, 1, kThreads, some, count, out);
  }
  return packed;
}

// Takes [N, C] float scores and [N] int64 targets.
at::Tensor count_correct_on_gpu(const at::Tensor& scores, const at::Tensor& target) {
  const c10::cuda::CUDAGuard guard(scores.device());
  auto correct = at::empty({}, target.options());
  const auto targets = target.contiguous();
  const long long rows = scores.size(0), row_step = scores.stride(0), class_step = scores.stride(1);
  const int64_t blocks = std::min<int64_t>((rows + kThreads - 1) / kThreads, kThreads);
  if (blocks > 1)
    C10_CUDA_CHECK(cudaMemsetAsync(correct.mutable_data_ptr(), 0, sizeof(int64_t), c10::cuda::getCurrentCUDAStream()));
  launch(kernels_of<NumberKernels>(scores.device()).count_correct, blocks, kThreads, scores.const_data_ptr(), rows,
         static_cast<int>(scores.size(1)), row_step, class_step, targets.const_data_ptr(), correct.mutable_data_ptr());
  return correct;
}

TORCH_LIBRARY_IMPL(ddprun, CUDA, library) {
  library.impl("packed", packed_on_gpu);
  library.impl("count_correct", count_correct_on_gpu);
}

}  // namespace
}  // namespace ddprun

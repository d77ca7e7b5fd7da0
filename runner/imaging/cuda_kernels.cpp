// SPDX-License-Identifier: MIT
#include "imaging/cuda_kernels.h"

#include "imaging/kernel_compiler.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#include <string>

namespace ddprun {

CudaKernels::CudaKernels(const char* source, c10::Device device) {
  const auto* gpu = at::cuda::getDeviceProperties(device.index());
  const auto code = compile_kernels(source, "sm_" + std::to_string(gpu->major) + std::to_string(gpu->minor));
  C10_CUDA_CHECK(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
}

cudaKernel_t CudaKernels::find(const char* name) const {
  cudaKernel_t kernel = nullptr;
  C10_CUDA_CHECK(cudaLibraryGetKernel(&kernel, library_, name));
  return kernel;
}

void launch_at(cudaKernel_t kernel, int64_t blocks, int threads, std::span<void*> places) {
  C10_CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                                  dim3(static_cast<unsigned>(threads)), places.data(), 0,
                                  at::cuda::getCurrentCUDAStream()));
}

}  // namespace ddprun

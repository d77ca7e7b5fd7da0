// SPDX-License-Identifier: MIT
// Kernels of this program, compiled for one GPU at run time. Part of the GPU backend's library.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <span>

namespace ddprun {

// Never unloaded: they end with the process.
class CudaKernels {
 public:
  // Compiles one of kernel_compiler.h's sources. Throws UserError on failure.
  CudaKernels(const char* source, c10::Device device);

  cudaKernel_t find(const char* name) const;

 private:
  cudaLibrary_t library_ = nullptr;
};

// Launches a kernel on the current stream of the current device.
void launch(cudaKernel_t kernel, int64_t blocks, int threads, std::span<void*> arguments);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Kernels of this program, compiled for one GPU at run time. Part of the GPU backend's library.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
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

// Returns Kernels(device), made at the first call for a GPU. Any thread may call it.
template <class Kernels>
const Kernels& kernels_of(c10::Device device) {
  static std::mutex mutex;
  static auto& made = *new std::map<c10::DeviceIndex, std::unique_ptr<Kernels>>;  // until the process ends
  const std::scoped_lock lock(mutex);
  auto& kernels = made[device.index()];
  if (!kernels) kernels = std::make_unique<Kernels>(device);
  return *kernels;
}

inline constexpr int kThreads = 256;  // of a block, where nothing speaks for another number

// Launches a kernel on the current stream of the current device. The places are those of its arguments.
void launch_at(cudaKernel_t kernel, int64_t blocks, int threads, std::span<void*> places);

// The same with the arguments themselves, whose types are those of the kernel.
template <class... Arguments>
void launch(cudaKernel_t kernel, int64_t blocks, int threads, Arguments... arguments) {
  std::array<void*, sizeof...(arguments)> places{const_cast<void*>(static_cast<const void*>(&arguments))...};
  launch_at(kernel, blocks, threads, places);
}

}  // namespace ddprun

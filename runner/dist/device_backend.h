// SPDX-License-Identifier: MIT
// What a GPU adds to the runner. Its code lies in a library of its own (lib/ddprun/backends/cuda.so), loaded only where a GPU
// is used: libtorch_cuda costs 0.1 s and 235 MB in a process that never sees a GPU.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace ddprun {

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual c10::Device device() const = 0;
  virtual std::string description() const = 0;  // "NVIDIA H200, 139 GiB"
  virtual c10::intrusive_ptr<c10d::Backend> make_group_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                               int64_t rank, int64_t size, double timeout_seconds) = 0;
  virtual at::Generator generator() const = 0;
  virtual void synchronize() = 0;
  virtual void release_memory() = 0;  // what the allocator keeps without need, back to the device
};

// Loads the backend and binds this process to GPU number `local_rank`. Throws UserError where the library or the GPU is missing.
std::shared_ptr<DeviceBackend> load_cuda_backend(int64_t local_rank);

}  // namespace ddprun

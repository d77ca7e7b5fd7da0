// SPDX-License-Identifier: MIT
// For tests that need a GPU: skipped where there is none.
#pragma once

#include "device/device_backend.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <stdexcept>

namespace ddprun::testing {

inline int64_t count_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int gpus = 0;
  return init && count && init(0) == 0 && count(&gpus) == 0 ? gpus : 0;
}

// LibTorch's sync-warning mode: while it forbids, every operation of any thread in which the host waits for a GPU
// throws. Lifted at the end. It does not see waits for an event.
class HostWaits {
 public:
  HostWaits() {
    void* library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (library) mode_ = static_cast<int*>(dlsym(library, "_ZZN3c104cuda13warning_stateEvE14warning_state_"));
    if (!mode_) throw std::runtime_error("c10::cuda::warning_state() is not where LibTorch 2.11 has it");
  }
  ~HostWaits() { forbid(false); }
  HostWaits(const HostWaits&) = delete;
  HostWaits& operator=(const HostWaits&) = delete;
  void forbid(bool forbidden) { *mode_ = forbidden ? 2 : 0; }  // c10::cuda::SyncDebugMode

 private:
  int* mode_ = nullptr;
};

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU here";
    backend_ = load_cuda_backend(0);
  }

  std::shared_ptr<DeviceBackend> backend_;
};

}  // namespace ddprun::testing

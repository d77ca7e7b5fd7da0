// SPDX-License-Identifier: MIT
// For tests that need a GPU: skipped where there is none.
#pragma once

#include "dist/device_backend.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace ddprun::testing {

inline int64_t count_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int gpus = 0;
  return init && count && init(0) == 0 && count(&gpus) == 0 ? gpus : 0;
}

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU here";
    backend_ = load_cuda_backend(0);
  }

  std::shared_ptr<DeviceBackend> backend_;
};

}  // namespace ddprun::testing

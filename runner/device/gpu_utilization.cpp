// SPDX-License-Identifier: MIT
#include "device/gpu_utilization.h"

#include <cuda_runtime_api.h>

#include <dlfcn.h>

#include <array>

namespace ddprun {
namespace {

constexpr int kSuccess = 0;

}  // namespace

struct GpuUtilization::Library {
  // Copied from nvml.h, which not every CUDA toolkit includes.
  struct Utilization {
    unsigned gpu = 0, memory = 0;  // percent
  };

  explicit Library(void* opened) : library(opened) {
    find("nvmlInit_v2", init);
    find("nvmlDeviceGetHandleByPciBusId_v2", handle_by_bus);
    find("nvmlDeviceGetUtilizationRates", rates);
  }
  ~Library() { dlclose(library); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }

  bool whole() const { return init && handle_by_bus && rates; }

  void* library;
  int (*init)() = nullptr;
  int (*handle_by_bus)(const char*, void**) = nullptr;
  int (*rates)(void*, Utilization*) = nullptr;
};

GpuUtilization::GpuUtilization(int device) {
  void* opened = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!opened) return;
  library_ = std::make_unique<Library>(opened);
  std::array<char, 32> bus{};
  const bool known = cudaDeviceGetPCIBusId(bus.data(), bus.size(), device) == cudaSuccess;
  if (!known || !library_->whole() || library_->init() != kSuccess ||
      library_->handle_by_bus(bus.data(), &handle_) != kSuccess)
    library_.reset();
}

GpuUtilization::~GpuUtilization() = default;

double GpuUtilization::percent() const {
  Library::Utilization utilization;
  if (!library_ || library_->rates(handle_, &utilization) != kSuccess) return -1;
  return utilization.gpu;
}

}  // namespace ddprun

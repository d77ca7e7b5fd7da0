// SPDX-License-Identifier: MIT
#include "agent/gpu_driver.h"

#include <dlfcn.h>

namespace ddprun {
namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

template <class Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string error_text(void* library, int error) {
  const char* text = nullptr;
  const auto tell = function<int(int, const char**)>(library, "cuGetErrorString");
  if (!tell || tell(error, &text) != 0 || !text) text = "unknown";
  return std::string(text) + " (CUDA's error " + std::to_string(error) + ")";
}

// What it does not tell stays empty.
GpuModel model_of(void* library, int number) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
  const auto get = function<int(int*, int)>(library, "cuDeviceGet");
  const auto name = function<int(char*, int, int)>(library, "cuDeviceGetName");
  const auto attribute = function<int(int*, int, int)>(library, "cuDeviceGetAttribute");
  int device = 0, major = 0, minor = 0;
  if (!get || !name || !attribute || get(&device, number) != 0) return {};
  char text[256] = "";
  if (name(text, sizeof text, device) != 0 || attribute(&major, kMajor, device) != 0 ||
      attribute(&minor, kMinor, device) != 0) {
    return {};
  }
  return {.name = text, .capability = 10 * major + minor};
}

}  // namespace

GpuDriver find_gpu_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {};
  const auto init = function<int(unsigned)>(library, "cuInit");
  const auto version = function<int(int*)>(library, "cuDriverGetVersion");
  const auto count = function<int(int*)>(library, "cuDeviceGetCount");
  if (!init || !version || !count) return {.problem = "libcuda.so.1 is not the driver's"};
  GpuDriver driver;
  version(&driver.cuda);
  int gpus = 0;
  auto error = init(0);
  if (error == 0) error = count(&gpus);
  if (error != 0 && error != kNoDevice) driver.problem = error_text(library, error);
  for (int gpu = 0; error == 0 && gpu < gpus; ++gpu) driver.gpus.push_back(model_of(library, gpu));
  return driver;
}

}  // namespace ddprun

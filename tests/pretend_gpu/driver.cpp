// SPDX-License-Identifier: MIT
// libcuda.so.1: what launchers and LibTorch ask of the driver. A context is its device's number and one. (CUDA Driver
// API, "Device Management" and "Primary Context Management".)
#include "pretend_gpu/engine.h"

#include <cuda.h>

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <thread>

namespace {

// The driver has threads of its own from then on, with the signals that the caller lets through, whatever it blocks
// later. (Not documented; seen with driver 580 on an H100.)
void start_own_thread() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
  });
}

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(1 + static_cast<intptr_t>(device)); }

CUresult known(CUdevice device) {
  return device >= 0 && device < pretend::count_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// LibTorch looks for all of these by name when it first asks the driver for something, which may be who else uses a GPU
// whose memory is full. It calls none of them for what is pretended (driver_api.h).
CUresult refuse(const char* function) {
  pretend::log(0, "not pretended: %s", function);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

// Names of the library without the types of the header.
#define REFUSED(name)                       \
  CUresult refused_##name() __asm__(#name); \
  CUresult refused_##name() { return refuse(#name); }
REFUSED(cuMemAddressReserve)
REFUSED(cuMemAddressFree)
REFUSED(cuMemCreate)
REFUSED(cuMemRelease)
REFUSED(cuMemMap)
REFUSED(cuMemUnmap)
REFUSED(cuMemSetAccess)
REFUSED(cuMemGetAllocationGranularity)
REFUSED(cuMemGetAllocationPropertiesFromHandle)
REFUSED(cuMemExportToShareableHandle)
REFUSED(cuMemImportFromShareableHandle)
REFUSED(cuMemRetainAllocationHandle)
REFUSED(cuMemsetD32Async)
REFUSED(cuStreamWriteValue32)

CUresult cuInit(unsigned) {
  const auto order = pretend::ordered(__func__, CUDA_ERROR_NOT_INITIALIZED);
  if (order.kind == pretend::Order::kError) return static_cast<CUresult>(order.error);
  if (pretend::count_devices() == 0) return CUDA_ERROR_NO_DEVICE;
  start_own_thread();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = static_cast<int>(pretend::setting("DRIVER", CUDA_VERSION));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  const auto order = pretend::ordered(__func__, CUDA_ERROR_NOT_INITIALIZED);
  if (order.kind == pretend::Order::kError) return static_cast<CUresult>(order.error);
  *count = pretend::count_devices();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return known(index);
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(size), "Pretend GPU");
  return known(device);
}

CUresult cuDeviceGetPCIBusId(char* bus, int size, CUdevice device) {
  std::snprintf(bus, static_cast<size_t>(size), "0000:%02X:00.0", device + 1);
  return known(device);
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return static_cast<CUresult>(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));  // the two have their numbers in common
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_of(pretend::current_device());
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (flags) *flags = 0;
  *active = 1;
  return known(device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = context_of(device);
  return known(device);
}

}  // extern "C"

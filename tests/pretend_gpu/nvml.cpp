// SPDX-License-Identifier: MIT
// libnvidia-ml.so.1: as much as ddprun and LibTorch ask for. They find its functions by name and do without those that
// are missing. (NVML API reference, "Initialization and Cleanup", "Device Queries".)
#include <cstring>

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3;  // nvmlReturn_t
int the_device;  // a handle for all: they do not differ in what is asked

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML's names
extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  *device = &the_device;
  return bus && std::strlen(bus) > 0 ? kSuccess : kInvalidArgument;
}
int nvmlDeviceGetHandleByPciBusId(const char* bus, void** device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus, device);
}

// Percent of time in kernels and in memory, of which nothing is known here.
int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 42;
  rates[1] = 7;
  return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, void* processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, void*) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) { return kNotSupported; }

const char* nvmlErrorString(int result) { return result == kSuccess ? "Success" : "Not Supported"; }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

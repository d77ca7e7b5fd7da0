// SPDX-License-Identifier: MIT
// A GPU driver as far as a launcher asks it, libcuda.so.1: FAKE_DRIVER_CUDA=12040 (the CUDA that it runs),
// FAKE_DRIVER_GPUS=2, FAKE_DRIVER_CAPABILITY=70, FAKE_DRIVER_INIT=802 (cuInit's error).
#include <cstdio>
#include <cstdlib>

namespace {

int number(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : otherwise;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's names
extern "C" {

int cuInit(unsigned flags) { return flags ? 1 : number("FAKE_DRIVER_INIT", 0); }

int cuDriverGetVersion(int* version) {
  *version = number("FAKE_DRIVER_CUDA", 13000);
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = number("FAKE_DRIVER_GPUS", 1);
  return 0;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU %d", device);
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = number("FAKE_DRIVER_CAPABILITY", 90);
  if (device < 0 || (attribute != 75 && attribute != 76)) return 1;
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}

int cuGetErrorString(int error, const char** text) {
  *text = error == 802 ? "system not yet initialized" : "unknown error";
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

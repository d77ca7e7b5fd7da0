// SPDX-License-Identifier: MIT
#include "pretend_gpu/cudart/devices.h"

#include "pretend_gpu/cudart/capture.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <sstream>
#include <utility>

namespace pretend {
namespace {

thread_local int thread_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool thread_stalls = false;

constexpr int kFirstBus = 0x10;

// The machine's GPUs that the process sees: those that CUDA_VISIBLE_DEVICES lists, up to the first that there is not
// (CUDA C++ Programming Guide, "CUDA Environment Variables").
std::vector<int> visible_numbers() {
  const auto count = static_cast<int>(setting("GPUS", 2));
  std::vector<int> numbers;
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!chosen) {
    for (int i = 0; i < count; ++i) numbers.push_back(i);
    return numbers;
  }
  std::istringstream words(chosen);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const auto number = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || number < 0 || number >= count) break;
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

char* reserve(size_t bytes) {
  void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    log(0, "there is no address space for %zu bytes of a pretend GPU's memory", bytes);
    std::_Exit(1);
  }
  return static_cast<char*>(range);
}

// Once LibTorch's CUDA library is there, its kernels are replaced by those of the operators' library.
void load_operators() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto file = setting("OPERATORS", "");
    if (file.empty() || !dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD)) return;
    if (!dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      log(0, "PRETEND_OPERATORS: %s", dlerror());
      std::_Exit(1);
    }
  });
}

}  // namespace

const std::vector<std::unique_ptr<Device>>& all_devices() {
  static const auto& devices = *[] {
    auto* made = new std::vector<std::unique_ptr<Device>>;
    const auto total = static_cast<size_t>(setting("MEMORY_MIB", 2048)) << 20;
    for (const int number : visible_numbers()) {
      auto device = std::make_unique<Device>();
      device->index = static_cast<int>(made->size());
      device->number = number;
      device->total_bytes = total;
      device->addresses = reserve(total);
      device->bytes = reserve(total);
      device->streams.push_back(new Stream(*device, 0));
      made->push_back(std::move(device));
    }
    return made;
  }();
  return devices;
}

Device& device(int index) { return *all_devices()[static_cast<size_t>(index)]; }
Device& current() { return device(thread_device); }
int current_device() { return thread_device; }
int count_devices() { return static_cast<int>(all_devices().size()); }

std::string bus_id(int index) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", kFirstBus + device(index).number);
  return text;
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

bool stalls() { return std::exchange(thread_stalls, false); }

cudaError_t enter(const char* function) {
  const auto order = ordered(function, cudaErrorLaunchFailure);
  thread_stalls = order.kind == Order::kStall;
  if (order.kind == Order::kError) return static_cast<cudaError_t>(order.error);
  if (all_devices().empty()) return cudaErrorNoDevice;
  const auto before = static_cast<cudaError_t>(current().failure.load());
  if (order.kind == Order::kLate) fail_device(thread_device, static_cast<cudaError_t>(order.error), function);
  return before;
}

void fail_device(int index, cudaError_t error, const std::string& text) {
  log(0, "device %d fails with error %d: %s", index, error, text.c_str());
  device(index).failure = error;
}

cudaError_t wait_for_device(Device& device) {
  std::vector<Stream*> streams;
  {
    const std::scoped_lock lock(device.mutex);
    streams = device.streams;
  }
  for (auto* stream : streams) stream->wait_all();
  return static_cast<cudaError_t>(device.failure.load());
}

}  // namespace pretend

using pretend::result;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (const auto order = pretend::ordered(__func__, cudaErrorInitializationError);
      order.kind == pretend::Order::kError) {
    return result(static_cast<cudaError_t>(order.error));
  }
  *count = pretend::count_devices();
  pretend::load_operators();
  return *count ? cudaSuccess : result(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* index) {
  PRETEND_ENTER();
  *index = pretend::thread_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  PRETEND_ENTER();
  if (index < 0 || index >= pretend::count_devices()) return result(cudaErrorInvalidDevice);
  pretend::thread_device = index;
  return cudaSuccess;
}

// The numbers of an H100, but for its few multiprocessors, which let nobody wonder about speeds.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  PRETEND_ENTER();
  if (index < 0 || index >= pretend::count_devices()) return result(cudaErrorInvalidDevice);
  const auto number = pretend::device(index).number;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Pretend GPU");
  std::snprintf(properties->uuid.bytes, sizeof properties->uuid.bytes, "pretend %d", number);
  properties->totalGlobalMem = pretend::device(index).total_bytes;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->totalConstMem = 64 << 10;
  properties->l2CacheSize = 50 << 20;
  const auto capability = static_cast<int>(pretend::setting("CAPABILITY", 90));
  properties->major = capability / 10;
  properties->minor = capability % 10;
  properties->multiProcessorCount = 4;
  properties->concurrentKernels = 1;
  properties->unifiedAddressing = 1;
  properties->asyncEngineCount = 3;
  properties->pciBusID = pretend::kFirstBus + number;
  properties->streamPrioritiesSupported = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  cudaDeviceProp properties;
  if (const auto error = cudaGetDeviceProperties(&properties, index)) return error;
  const auto number = [](auto size) { return static_cast<int>(size); };
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = number(properties.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = number(properties.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = properties.warpSize; break;
    case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; break;
    case cudaDevAttrPciBusId: *value = properties.pciBusID; break;
    default: *value = 0; pretend::log(1, "attribute %d of a device is reported as 0", attribute);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int index) {
  PRETEND_ENTER();
  if (index < 0 || index >= pretend::count_devices()) return result(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(size), "%s", pretend::bus_id(index).c_str());
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  PRETEND_ENTER();
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  PRETEND_ENTER();
  auto& on = pretend::current();
  if (const auto error = refuse_captured(on, __func__)) return result(error);
  pretend::trace("host_wait", __func__, on.index);
  return result(wait_for_device(on));
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(pretend::setting("DRIVER", CUDART_VERSION));
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(pretend::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return pretend::last_error; }

}  // extern "C"

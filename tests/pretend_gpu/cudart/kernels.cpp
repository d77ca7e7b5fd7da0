// SPDX-License-Identifier: MIT
// Launches, and how libraries say which kernels they have. Two kinds run: what another pretend library enqueues
// (LibTorch's operators, collectives), and kernels that the pretend NVRTC compiled for the host. Any other is
// LibTorch's own compiled code, which cannot.
#include "pretend_gpu/cudart/capture.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace pretend {
namespace {

// A kernel for the host, whose library binds copies of a launch's arguments to it.
struct HostKernel {
  using Bound = std::function<void(unsigned, unsigned, unsigned)>;  // of the grid's extents
  std::string name;
  Bound* (*bind)(void** arguments);
};

std::mutex kernels_mutex;

std::unordered_map<const void*, const char*>& compiled_kernels() {  // filled while libraries load
  static auto& names = *new std::unordered_map<const void*, const char*>;
  return names;
}

std::unordered_map<const void*, std::unique_ptr<HostKernel>>& host_kernels() {
  static auto& kernels = *new std::unordered_map<const void*, std::unique_ptr<HostKernel>>;
  return kernels;
}

// PRETEND_STRICT=1: the process aborts.
cudaError_t launch_unknown(const void* function) {
  const char* name = "a kernel of unknown name";
  {
    const std::scoped_lock lock(kernels_mutex);
    static auto& reported = *new std::unordered_set<const void*>;
    const auto known = compiled_kernels().find(function);
    if (known != compiled_kernels().end()) name = known->second;
    if (reported.insert(function).second) log(0, "not pretended: kernel %s", name);
  }
  if (setting("STRICT", int64_t{0})) {
    void* frames[60];
    backtrace_symbols_fd(frames, backtrace(frames, 60), 2);
    std::abort();
  }
  return cudaErrorInvalidDeviceFunction;
}

cudaError_t launch(const void* function, dim3 grid, void** arguments, cudaStream_t stream) {
  const HostKernel* kernel = nullptr;
  {
    const std::scoped_lock lock(kernels_mutex);
    const auto own = host_kernels().find(function);
    if (own != host_kernels().end()) kernel = own->second.get();
  }
  if (!kernel) return launch_unknown(function);
  const std::shared_ptr<HostKernel::Bound> bound(kernel->bind(arguments));
  return enqueue(stream, kernel->name.c_str(), [bound, grid] { (*bound)(grid.x, grid.y, grid.z); });
}

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};
thread_local std::vector<Configuration> configurations;  // of launches <<<>>> that are being made

}  // namespace

cudaError_t enqueue(cudaStream_t stream, const char* name, Work work) {
  auto& on = stream_of(stream);
  trace("launch", name, on.device.index, &on);
  return result(put(on, name, [work = std::move(work), &on, name] {
    if (on.device.failure != cudaSuccess) return;
    try {
      work();
    } catch (const std::exception& error) {
      fail_device(on.device.index, cudaErrorAssert, std::string(name) + ": " + error.what());
    }
  }));
}

}  // namespace pretend

using pretend::result;

extern "C" {

// --- What nvcc's code calls

void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  pretend::compiled_kernels()[host] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  pretend::configurations.push_back({.grid = grid, .block = block, .shared_bytes = shared_bytes, .stream = stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  auto& made = pretend::configurations;
  if (made.empty()) return cudaErrorInvalidValue;
  *grid = made.back().grid;
  *block = made.back().block;
  *shared_bytes = made.back().shared_bytes;
  *static_cast<void**>(stream) = made.back().stream;
  made.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* function) {
  *out = const_cast<cudaKernel_t>(static_cast<const CUkern_st*>(function));
  return cudaSuccess;
}

// --- Launches

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3, void** arguments, size_t, cudaStream_t stream) {
  PRETEND_ENTER();
  return result(pretend::launch(function, grid, arguments, stream));
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3, void** arguments, size_t, cudaStream_t stream) {
  PRETEND_ENTER();
  return result(pretend::launch(kernel, grid, arguments, stream));
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3, void** arguments, size_t,
                                        cudaStream_t stream) {
  PRETEND_ENTER();
  return result(pretend::launch(function, grid, arguments, stream));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function, void** arguments) {
  PRETEND_ENTER();
  return result(pretend::launch(function, configuration->gridDim, arguments, configuration->stream));
}

// --- What is asked about kernels: the most that each H100 grants

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  PRETEND_ENTER();
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

// --- Libraries of the pretend NVRTC: their "CUBIN" is "pretend:" and the path of a library for the host

cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  PRETEND_ENTER();
  constexpr char kMark[] = "pretend:";
  const auto* text = static_cast<const char*>(code);
  if (std::strncmp(text, kMark, sizeof kMark - 1) != 0) {
    pretend::log(0, "not pretended: code that is not the pretend NVRTC's");
    return result(cudaErrorInvalidValue);
  }
  void* library = dlopen(text + sizeof kMark - 1, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    pretend::log(0, "%s", dlerror());
    return result(cudaErrorInvalidValue);
  }
  *out = static_cast<cudaLibrary_t>(library);
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  PRETEND_ENTER();
  void* bind = dlsym(library, (std::string("pretend_bind_") + name).c_str());
  if (!bind) return result(cudaErrorInvalidDeviceFunction);
  auto kernel = std::make_unique<pretend::HostKernel>();
  kernel->name = name;
  kernel->bind = reinterpret_cast<decltype(kernel->bind)>(bind);
  *out = reinterpret_cast<cudaKernel_t>(kernel.get());
  const std::scoped_lock lock(pretend::kernels_mutex);
  pretend::host_kernels()[*out] = std::move(kernel);
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }  // work under way may still need it

// --- The driver's functions, by name: those of the pretend libcuda.so.1

// Null without an error for a function that the driver does not have (cuda_runtime_api.h): LibTorch does without some.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  *function = driver ? dlsym(driver, name) : nullptr;
  if (status) *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (!*function) pretend::log(2, "not pretended: the driver's %s", name);
  return cudaSuccess;
}

}  // extern "C"

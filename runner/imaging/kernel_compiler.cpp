// SPDX-License-Identifier: MIT
#include "imaging/kernel_compiler.h"

#include <ddprun/error.h>

#include <nvrtc.h>

#include <dlfcn.h>

#include <array>

namespace ddprun {
namespace {

// Loads the functions on demand: the library is large, and a process without a GPU never needs it.
class Nvrtc {
 public:
  Nvrtc() : library_(::dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw UserError(std::string("the GPU's compiler cannot be loaded: ") + ::dlerror());
    load_builtins();
  }

  template <class Call>
  Call* call(const char* name) const {
    auto* symbol = ::dlsym(library_, name);
    if (!symbol) throw UserError(std::string("libnvrtc.so.13 has no ") + name + ": is it CUDA 13's?");
    return reinterpret_cast<Call*>(symbol);
  }

  void check(nvrtcResult result, const std::string& details) const {
    if (result == NVRTC_SUCCESS) return;
    throw UserError(std::string("the GPU's compiler: ") +
                    call<decltype(nvrtcGetErrorString)>("nvrtcGetErrorString")(result) +
                    (details.empty() ? "" : "\n" + details));
  }

 private:
  // NVRTC looks for its other half by name alone, and finds it if it is already loaded. If it is missing, NVRTC says so
  // when it compiles.
  void load_builtins() const {
    int major = 0, minor = 0;
    check(call<decltype(nvrtcVersion)>("nvrtcVersion")(&major, &minor), "");
    const auto name = "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
    ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }

  void* library_;  // never closed: its code may be on any thread's stack
};

class Program {
 public:
  Program(const Nvrtc& nvrtc, const char* source) : nvrtc_(nvrtc) {
    const std::array headers{kPhiloxHeader, kImagePlaceHeader};
    const std::array names{"ddprun/philox.h", "imaging/image_place.h"};
    const auto create = nvrtc.call<decltype(nvrtcCreateProgram)>("nvrtcCreateProgram");
    nvrtc.check(create(&program_, source, "kernels.cu", headers.size(), headers.data(), names.data()), "");
  }

  ~Program() { nvrtc_.call<decltype(nvrtcDestroyProgram)>("nvrtcDestroyProgram")(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string compile(const std::string& architecture) {
    const auto target = "--gpu-architecture=" + architecture;
    const std::array options{target.c_str(), "--std=c++17", "--device-as-default-execution-space"};
    const auto compile = nvrtc_.call<decltype(nvrtcCompileProgram)>("nvrtcCompileProgram");
    const auto result = compile(program_, options.size(), options.data());
    if (result != NVRTC_SUCCESS)
      nvrtc_.check(result, target + "\n" + text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog"));
    return text("nvrtcGetCUBINSize", "nvrtcGetCUBIN");
  }

 private:
  std::string text(const char* size_call, const char* text_call) const {
    size_t size = 0;
    nvrtc_.check(nvrtc_.call<decltype(nvrtcGetCUBINSize)>(size_call)(program_, &size), "");
    std::string text(size, '\0');
    nvrtc_.check(nvrtc_.call<decltype(nvrtcGetCUBIN)>(text_call)(program_, text.data()), "");
    return text;
  }

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

void load_kernel_compiler() { const Nvrtc nvrtc; }

std::string compile_kernels(const char* source, const std::string& architecture) {
  const Nvrtc nvrtc;
  return Program(nvrtc, source).compile(architecture);
}

}  // namespace ddprun

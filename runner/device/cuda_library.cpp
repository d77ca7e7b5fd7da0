// SPDX-License-Identifier: MIT
#include "base/fork_server.h"
#include "base/on_demand.h"
#include "device/device_backend.h"

#include <ddprun/error.h>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>

#include <filesystem>
#include <string_view>

namespace ddprun {
namespace {

// Extracts "libnccl.so.2: cannot open shared object file: No such file or directory" from Boost's message around it.
std::string loaders_text(const std::string& text) {
  constexpr std::string_view kBefore = "dlerror system message: ";
  const auto found = text.find(kBefore);
  if (found == text.npos) return text;
  const auto begin = found + kBefore.size(), end = text.rfind(')');
  return text.substr(begin, end == text.npos || end < begin ? text.npos : end - begin);
}

}  // namespace

void preload_cuda_backend() { load_in_fork_server(own_prefix() / kCudaBackend); }

// The backend is never unloaded: LibTorch's registrations in it must outlive every tensor.
std::shared_ptr<DeviceBackend> load_cuda_backend(int64_t local_rank, int64_t gpus) {
  const auto file = own_prefix() / kCudaBackend;
  using Create = void(int64_t, int64_t, std::shared_ptr<DeviceBackend>*);
  require_parts({kCudaBackend});  // not built in a worker: says how
  if (!std::filesystem::exists(file)) {
    throw UserError("launch.device: this ddprun was built without CUDA: there is no " + file.string() +
                    ". Use launch.device=cpu, or build with -DDDPRUN_CUDA=ON");
  }
  std::shared_ptr<DeviceBackend> backend;
  try {
    using boost::dll::load_mode::rtld_global;
    using boost::dll::load_mode::rtld_now;
    static auto* library = new boost::dll::shared_library(file, rtld_now | rtld_global);
    library->get<Create>("ddprun_create_cuda_backend")(local_rank, gpus, &backend);
  } catch (const boost::dll::fs::system_error& error) {
    throw UserError(
        "launch.device: the GPU backend cannot be loaded: " + loaders_text(error.what()) +
        ". NCCL and CUDA's libraries come as wheels beside LibTorch's: reinstall them (`ddprun docs setup`), or use "
        "launch.device=cpu");
  }
  return backend;
}

}  // namespace ddprun

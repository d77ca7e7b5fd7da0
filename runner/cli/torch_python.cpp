// SPDX-License-Identifier: MIT
#include "cli/torch_python.h"

#include "base/program.h"

#include <ddprun/error.h>

#include <c10/core/Allocator.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr auto kWithout =
    ". Without Python there are --out m.ts (TorchScript, for LibTorch and torch.jit.load) and m.safetensors (weights)";

// <prefix>/lib/python3.12/site-packages/torch/lib/libc10.so; empty if it cannot be known.
fs::path libtorch() {
  Dl_info info{};
  const auto* symbol = reinterpret_cast<const void*>(&c10::GetAllocator);
  return ::dladdr(symbol, &info) != 0 && info.dli_fname ? fs::path(info.dli_fname) : fs::path();
}

// The Python that looks for packages where this library lies; empty if there is none.
fs::path python_of(const fs::path& library) {
  const auto packages = library.parent_path().parent_path().parent_path();
  const auto version = packages.parent_path();  // lib/python3.12
  const auto name = version.filename().string();
  if (!packages.filename().string().ends_with("-packages") || !name.starts_with("python3")) return {};
  const auto prefix = version.parent_path().parent_path();
  for (const auto& folder : {prefix / "bin", fs::path("/usr/bin")}) {  // Debian's dist-packages lie in /usr/local
    if (::access((folder / name).c_str(), X_OK) == 0) return folder / name;
  }
  return {};
}

}  // namespace

fs::path find_torch_python() {
  const char* named = std::getenv("DDPRUN_PYTHON");
  if (named && *named != '\0') {
    if (::access(named, X_OK) == 0) return named;
    throw UserError(std::string("DDPRUN_PYTHON=") + named + ": there is no such program" + kWithout);
  }
  const auto library = libtorch();
  std::error_code error;
  for (const auto& place : {library.lexically_normal(), fs::canonical(library, error)}) {
    if (const auto python = python_of(place); !python.empty()) return python;
  }
  throw UserError(".pt2 and .onnx are written by torch in Python, and no Python belongs to the LibTorch in " +
                  library.parent_path().string() + "; name one that has torch with DDPRUN_PYTHON=/path/to/python" +
                  kWithout);
}

std::string run_tool(const fs::path& python, const std::string& tool, const std::vector<std::string>& arguments) {
  const auto file = own_program().parent_path().parent_path() / "share/ddprun/tools" / tool;
  std::error_code error;
  if (!fs::exists(file, error)) throw UserError(file.string() + " is missing in this installation; install it anew");
  std::vector<std::string> command{python.string(), "-B", file.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto end = run_program(command);
  if (end.exit_code != 0) throw UserError(last_line(end.output));
  return end.output;
}

}  // namespace ddprun

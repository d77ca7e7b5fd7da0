// SPDX-License-Identifier: MIT
// libnvrtc.so.13: compiles a kernel for the host. The "CUBIN" is "pretend:" and the path of a library, which the
// pretend cudart opens; the library lies in memory without a name, so that nothing is left behind. What was compiled is
// kept in the build tree, for the next process that compiles the same. (NVRTC documentation, "User Interface".)
#include "pretend_gpu/engine.h"

#include <nvrtc.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <system_error>

namespace fs = std::filesystem;

struct _nvrtcProgram {
  fs::path folder;      // of the sources; gone when it is compiled
  std::string sources;  // all of them
  std::string code, log;
};

namespace {

constexpr auto kCompiler = PRETEND_COMPILER " -std=c++20 -O2 -shared -fPIC -include " PRETEND_DEVICE_HEADER;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// Returns functions that bind a launch's arguments to each kernel: device.h.
std::string binders_of(const std::string& source) {
  const std::regex kernel(R"(extern\s+"C"\s+__global__\s+void\s+(\w+))");
  std::string binders;
  for (std::sregex_iterator found(source.begin(), source.end(), kernel), end; found != end; ++found) {
    const auto name = (*found)[1].str();
    binders += "extern \"C\" void* pretend_bind_" + name + "(void** arguments) { return pretend::bind(" + name +
               ", arguments); }\n";
  }
  return binders;
}

// Returns the path of a copy in memory, which lives as long as the process.
std::string in_memory(const std::string& library) {
  const int file = ::memfd_create("pretend_kernel", MFD_CLOEXEC);
  size_t written = 0;
  while (file >= 0 && written < library.size()) {
    const auto count = ::write(file, library.data() + written, library.size() - written);
    if (count < 0) return "";
    written += static_cast<size_t>(count);
  }
  return file < 0 ? "" : "/proc/self/fd/" + std::to_string(file);
}

// Returns where a library of these sources is kept.
fs::path kept_library(const std::string& sources) {
  const auto all = sources + read(PRETEND_DEVICE_HEADER) + kCompiler;
  return fs::path(PRETEND_KERNELS) / (std::to_string(std::hash<std::string>()(all)) + ".so");
}

// Keeps a library, if it can be: others may keep the same one at this moment.
void keep(const fs::path& library, const fs::path& place) {
  const auto whole = place.string() + "." + std::to_string(::getpid());
  std::error_code ignored;
  fs::create_directories(place.parent_path(), ignored);
  if (fs::copy_file(library, whole, fs::copy_options::overwrite_existing, ignored)) fs::rename(whole, place, ignored);
}

nvrtcResult give(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult give_size(const std::string& text, size_t* size) {
  *size = text.size() + 1;  // with the end of the text
  return NVRTC_SUCCESS;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVRTC's names
extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = CUDART_VERSION / 1000;
  *minor = CUDART_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR unknown";
  }
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char*, int count,
                               const char* const* headers, const char* const* names) {
  const auto order = pretend::ordered(__func__, NVRTC_ERROR_OUT_OF_MEMORY);
  if (order.kind == pretend::Order::kError) return static_cast<nvrtcResult>(order.error);
  auto folder = (fs::temp_directory_path() / "pretend_nvrtc_XXXXXX").string();
  if (!::mkdtemp(folder.data())) return NVRTC_ERROR_OUT_OF_MEMORY;
  auto* program = new _nvrtcProgram{folder, "", "", ""};
  const auto add = [program](const std::string& name, const std::string& text) {
    write(program->folder / name, text);
    program->sources += name + "\n" + text;
  };
  add("kernel.cpp", std::string(source) + "\n" + binders_of(source));
  for (int i = 0; i < count; ++i) add(names[i], headers[i]);
  *out = program;
  return NVRTC_SUCCESS;
}

// The options are the real compiler's. Its default is C++17; C++20 is what device.h needs.
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  const auto order = pretend::ordered(__func__, NVRTC_ERROR_COMPILATION);
  if (order.kind == pretend::Order::kError) return static_cast<nvrtcResult>(order.error);
  const auto& folder = program->folder;
  const auto kept = kept_library(program->sources);
  if (fs::exists(kept)) {
    program->code = "pretend:" + in_memory(read(kept));
    fs::remove_all(folder);
    return NVRTC_SUCCESS;
  }
  const auto library = folder / "kernel.so", log = folder / "log";
  const auto command = std::string("env -u LD_PRELOAD ") + kCompiler + " -I" + folder.string() + " " +
                       (folder / "kernel.cpp").string() + " -o " + library.string() + " >" + log.string() + " 2>&1";
  const bool compiled = std::system(command.c_str()) == 0;
  program->log = read(log);
  if (compiled) program->code = "pretend:" + in_memory(read(library));
  if (compiled) keep(library, kept);
  fs::remove_all(folder);
  if (!compiled) pretend::log(0, "NVRTC: %s", program->log.c_str());
  return compiled ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) { return give_size(program->code, size); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) { return give(program->code, code); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) { return give_size(program->log, size); }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* text) { return give(program->log, text); }

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  fs::remove_all((*program)->folder);  // if it was never compiled
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

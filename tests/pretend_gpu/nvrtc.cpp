// SPDX-License-Identifier: MIT
// libnvrtc.so.13: compiles a kernel for the host. The "CUBIN" is "pretend:" and the path of a library, which the
// pretend cudart opens. It is kept in the build tree, for the next process that compiles the same. (NVRTC
// documentation, "User Interface".)
#include "pretend_gpu/engine.h"

#include <nvrtc.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>

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

// Returns where a library of these sources is kept.
fs::path kept_library(const std::string& sources) {
  const auto all = sources + read(PRETEND_DEVICE_HEADER) + kCompiler;
  return fs::path(PRETEND_KERNELS) / (std::to_string(std::hash<std::string>()(all)) + ".so");
}

// Compiles the kernels of a folder for the host. Returns what the compiler says against it; empty where it is kept at
// `place`, where others may keep the same one at this moment.
std::string compile(const fs::path& folder, const fs::path& place) {
  fs::create_directories(place.parent_path());
  const auto whole = place.string() + "." + std::to_string(::getpid());
  const auto log = folder / "log";
  const auto command = std::string("env -u LD_PRELOAD ") + kCompiler + " -I" + folder.string() + " " +
                       (folder / "kernel.cpp").string() + " -o " + whole + " >" + log.string() + " 2>&1";
  if (std::system(command.c_str()) != 0) return "the compiler failed\n" + read(log);
  fs::rename(whole, place);
  return "";
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
  const auto kept = kept_library(program->sources);
  if (!fs::exists(kept)) program->log = compile(program->folder, kept);
  fs::remove_all(program->folder);
  if (!program->log.empty()) {
    pretend::log(0, "NVRTC: %s", program->log.c_str());
    return NVRTC_ERROR_COMPILATION;
  }
  program->code = "pretend:" + kept.string();
  return NVRTC_SUCCESS;
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

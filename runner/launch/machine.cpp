// SPDX-License-Identifier: MIT
#include "launch/machine.h"

#include "base/cores.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

namespace ddprun {

namespace fs = std::filesystem;
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct Hierarchy {  // a cgroup hierarchy
  bool v2 = false;
  std::string path;  // this process's group in it
};

struct Mount {
  std::string group;  // the mounted part of the hierarchy
  fs::path folder;    // the mount point
};

bool lists(const std::string& words, const std::string& word) {
  return ("," + words + ",").find("," + word + ",") != std::string::npos;
}

// Parses a line of /proc/self/cgroup, "4:cpu,cpuacct:/job" or "0::/job"; returns nothing if the hierarchy does not
// control CPU time.
std::optional<Hierarchy> read_hierarchy(const std::string& line) {
  const auto first = line.find(':'), second = line.find(':', first + 1);
  if (first == line.npos || second == line.npos) return std::nullopt;
  const auto controllers = line.substr(first + 1, second - first - 1);
  const bool v2 = controllers.empty();
  if (!v2 && !lists(controllers, "cpu")) return std::nullopt;
  return Hierarchy{.v2 = v2, .path = line.substr(second + 1)};
}

// Finds the mount in /proc/self/mountinfo: "35 24 0:30 /docker/1f /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup
// rw,cpu,cpuacct".
std::optional<Mount> find_mount(const fs::path& root, bool v2) {
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto dash = line.find(" - ");
    if (dash == line.npos) continue;
    std::istringstream before(line), behind(line.substr(dash + 3));
    std::string skipped, group, folder, type, options;
    before >> skipped >> skipped >> skipped >> group >> folder;
    behind >> type >> skipped >> options;
    if (v2 ? type == "cgroup2" : type == "cgroup" && lists(options, "cpu"))
      return Mount{.group = group, .folder = root / fs::path(folder).relative_path()};
  }
  return std::nullopt;
}

std::string first_word(std::istream& stream) {
  std::string word;
  stream >> word;
  return word;
}

// Returns the cores that one group grants.
double quota(const fs::path& group, bool v2) {
  std::ifstream file(group / (v2 ? "cpu.max" : "cpu.cfs_quota_us")), v1_period(group / "cpu.cfs_period_us");
  const auto most = first_word(file);
  const auto period = first_word(v2 ? file : v1_period);
  if (most.empty() || most == "max" || most.starts_with('-') || period.empty()) return kUnlimited;
  return std::strtod(most.c_str(), nullptr) / std::max(1.0, std::strtod(period.c_str(), nullptr));
}

// Returns the path of a group below the mount. In a container the mounted part may be the process's own group or one
// above it.
fs::path below(const Mount& mount, const std::string& path) {
  if (mount.group == "/") return fs::path(path).relative_path();
  return path.starts_with(mount.group + "/") ? fs::path(path.substr(mount.group.size() + 1)) : fs::path();
}

int64_t cores_in_mask() {
  const auto cores = cores_of_process(0);
  return cores.empty() ? std::thread::hardware_concurrency() : static_cast<int64_t>(cores.size());
}

}  // namespace

double granted_cores(const fs::path& root) {
  double granted = kUnlimited;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto hierarchy = read_hierarchy(line);
    const auto mount = hierarchy ? find_mount(root, hierarchy->v2) : std::nullopt;
    if (!mount) continue;
    for (auto path = below(*mount, hierarchy->path);; path = path.parent_path()) {
      granted = std::min(granted, quota(mount->folder / path, hierarchy->v2));
      if (path.empty()) break;
    }
  }
  return granted;
}

std::vector<int> cores_next_to(const std::string& bus, const fs::path& root) {
  if (bus.empty()) return {};
  std::ifstream file(root / "sys/bus/pci/devices" / bus / "local_cpulist");
  std::string list;
  std::getline(file, list);
  const auto own = cores_of_process(0);
  std::vector<int> cores;
  for (const int core : read_cores(list)) {
    if (std::ranges::binary_search(own, core)) cores.push_back(core);
  }
  return cores.size() == own.size() ? std::vector<int>() : cores;
}

int64_t usable_cores() {
  const auto cores = std::min(static_cast<double>(cores_in_mask()), granted_cores());
  return std::max<int64_t>(1, static_cast<int64_t>(cores));
}

namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

template <class Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string error_text(void* library, int error) {
  const char* text = nullptr;
  const auto describe = function<int(int, const char**)>(library, "cuGetErrorString");
  if (!describe || describe(error, &text) != 0 || !text) text = "unknown";
  return std::string(text) + " (CUDA's error " + std::to_string(error) + ")";
}

// Returns a GPU's PCI address in the kernel's spelling.
std::string bus_of(void* library, int device) {
  const auto get = function<int(char*, int, int)>(library, "cuDeviceGetPCIBusId");
  char text[32] = "";
  if (!get || get(text, sizeof text, device) != 0) return "";
  std::string bus = text;
  for (auto& letter : bus) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return bus;
}

// Describes a GPU; what the driver does not say stays empty.
GpuModel model_of(void* library, int number) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
  const auto get = function<int(int*, int)>(library, "cuDeviceGet");
  const auto name = function<int(char*, int, int)>(library, "cuDeviceGetName");
  const auto attribute = function<int(int*, int, int)>(library, "cuDeviceGetAttribute");
  int device = 0, major = 0, minor = 0;
  if (!get || !name || !attribute || get(&device, number) != 0) return {};
  char text[256] = "";
  if (name(text, sizeof text, device) != 0 || attribute(&major, kMajor, device) != 0 ||
      attribute(&minor, kMinor, device) != 0) {
    return {};
  }
  return {.name = text, .capability = 10 * major + minor, .cores = cores_next_to(bus_of(library, device))};
}

}  // namespace

GpuDriver find_gpu_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {};
  const auto init = function<int(unsigned)>(library, "cuInit");
  const auto version = function<int(int*)>(library, "cuDriverGetVersion");
  const auto count = function<int(int*)>(library, "cuDeviceGetCount");
  if (!init || !version || !count) return {.problem = "libcuda.so.1 is not the driver's"};
  GpuDriver driver;
  version(&driver.cuda);
  int gpus = 0;
  auto error = init(0);
  if (error == 0) error = count(&gpus);
  if (error != 0 && error != kNoDevice) driver.problem = error_text(library, error);
  for (int gpu = 0; error == 0 && gpu < gpus; ++gpu) driver.gpus.push_back(model_of(library, gpu));
  return driver;
}

}  // namespace ddprun

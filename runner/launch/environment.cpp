// SPDX-License-Identifier: MIT
#include "launch/environment.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>

#include "digest/sha256.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr size_t kMostDiffBytes = 1 << 20;
constexpr size_t kMostStatusBytes = 64 << 10;
constexpr const char* kSecretWords[] = {"KEY", "TOKEN", "SECRET", "PASSWORD"};

struct Output {
  std::string text;
  bool cut = false;
};

// What git prints in the current folder; nothing where it fails, is missing or takes longer than five seconds. It takes
// no locks and runs no program that the repository's settings name.
std::optional<Output> git(const std::string& arguments, size_t most_bytes) {
  const std::string command =
      "GIT_OPTIONAL_LOCKS=0 timeout 5 git -c core.fsmonitor=false " + arguments + " 2>/dev/null </dev/null";
  FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  Output output;
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) {
    output.text.append(buffer, got);
    if (output.text.size() <= most_bytes) continue;
    output.text.resize(most_bytes);
    output.cut = true;
    break;
  }
  const int status = ::pclose(pipe);
  if (status != 0 && !output.cut) return std::nullopt;
  return output;
}

Json describe_git() {
  const auto sha = git("rev-parse HEAD", kMostStatusBytes);
  if (!sha) return nullptr;
  Json json = {{"sha", sha->text.substr(0, sha->text.find('\n'))}};
  if (const auto status = git("status --porcelain", kMostStatusBytes)) {
    json["dirty"] = !status->text.empty();
    json["status"] = status->text;
  }
  if (const auto diff = git("diff --no-color --no-ext-diff --no-textconv HEAD", kMostDiffBytes)) {
    json["diff"] = diff->text;
    if (diff->cut) json["diff_cut_at_bytes"] = kMostDiffBytes;
  }
  return json;
}

// The value after "key   : " of the first line that begins with the key.
std::string field(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

Json describe_gpus(const fs::path& proc) {
  Json gpus = Json::array();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(proc / "driver/nvidia/gpus", error)) {
    const auto file = entry.path() / "information";
    gpus.push_back({{"bus", entry.path().filename().string()},
                    {"model", field(file, "Model")},
                    {"uuid", field(file, "GPU UUID")}});
  }
  return gpus;
}

Json describe_cpu(const fs::path& proc) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  Json json = {{"model", field(proc / "cpuinfo", "model name")}, {"count", ::sysconf(_SC_NPROCESSORS_ONLN)}};
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) json["allowed"] = CPU_COUNT(&allowed);
  return json;
}

Json describe_plugins(const std::vector<fs::path>& files) {
  Json plugins = Json::array();
  for (const auto& file : files) {
    Json plugin = {{"file", file.string()}};
    try {
      plugin["sha256"] = sha256_file(file);
    } catch (const std::system_error& error) {
      plugin["error"] = error.what();
    }
    plugins.push_back(std::move(plugin));
  }
  return plugins;
}

bool changes_runs(const std::string& name) {
  const auto begins = [&](const char* prefix) { return name.starts_with(prefix); };
  return begins("DDPRUN_") || begins("OMP_") || begins("MKL_") || begins("NCCL_") || begins("GLOO_") ||
         begins("TORCH_") || begins("SLURM_JOB_ID") || name == "CUDA_VISIBLE_DEVICES" || name == "LD_PRELOAD" ||
         name == "MALLOC_CONF";
}

bool looks_secret(const std::string& name) {
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
                     [&](const char* word) { return name.find(word) != std::string::npos; });
}

Json describe_variables() {
  Json variables = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (changes_runs(name))
      variables[name] = looks_secret(name) ? "(left out)" : text.substr(std::min(text.size(), name.size() + 1));
  }
  return variables;
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts);
  return text;
}

}  // namespace

std::string describe_environment(const RunRecord& record, const fs::path& proc) {
  utsname system = {};
  ::uname(&system);
  std::error_code ignored;
  Json json = {{"time", local_time()},
               {"host", system.nodename},
               {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
               {"arguments", record.arguments},
               {"folder", fs::current_path(ignored).string()},
               {"cpu", describe_cpu(proc)},
               {"memory", field(proc / "meminfo", "MemTotal")},
               {"gpus", describe_gpus(proc)},
               {"plugins", describe_plugins(record.plugin_files)},
               {"variables", describe_variables()}};
  json["versions"] = Json::object();
  for (const auto& [name, version] : record.versions) json["versions"][name] = version;
  if (const auto driver = field(proc / "driver/nvidia/version", "NVRM version"); !driver.empty())
    json["driver"] = driver;
  if (auto commit = describe_git(); !commit.is_null()) json["git"] = std::move(commit);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun

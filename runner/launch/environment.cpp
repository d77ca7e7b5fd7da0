// SPDX-License-Identifier: MIT
#include "launch/environment.h"

#include "base/clock.h"
#include "base/program.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr size_t kMostDiffBytes = 1 << 20;
constexpr size_t kMostStatusBytes = 64 << 10;
constexpr const char* kSecretWords[] = {"KEY", "TOKEN", "SECRET", "PASSWORD"};

// Runs git in the current folder and returns its output, or nothing if it fails, is missing or takes longer than five
// seconds in all. It takes no locks and runs no program that the repository's settings name.
class Git {
 public:
  std::optional<ProgramEnd> run(std::vector<std::string> words, size_t most_bytes = kMostStatusBytes) const try {
    const double left = kPatience - since_.seconds();
    if (left <= 0) return std::nullopt;
    std::vector<std::string> command{"env", "GIT_OPTIONAL_LOCKS=0", "git", "-c", "core.fsmonitor=false"};
    command.insert(command.end(), settings_.begin(), settings_.end());
    command.insert(command.end(), words.begin(), words.end());
    auto end = run_program(command, {.seconds = left, .most_bytes = most_bytes, .errors = false});
    const bool too_long = end.cut && end.output.size() < most_bytes;
    return too_long || (!end.cut && end.exit_code != 0) ? std::nullopt : std::optional(std::move(end));
  } catch (const std::exception&) {
    return std::nullopt;
  }

  // Removes the filter programs that git would run files through before comparing them.
  void leave_out_filters() {
    const auto filters = run({"config", "--name-only", "--get-regexp", "^filter\\..*\\.(clean|process|required)$"});
    std::istringstream names(filters ? filters->output : "");
    for (std::string name; std::getline(names, name);) {
      settings_.emplace_back("-c");
      settings_.push_back(name + (name.ends_with("required") ? "=false" : "="));
    }
  }

 private:
  static constexpr double kPatience = 5;
  Stopwatch since_;
  std::vector<std::string> settings_;
};

Json describe_git(std::string& changes) {
  Git git;
  const auto sha = git.run({"rev-parse", "HEAD"});
  if (!sha) return nullptr;
  Json json = {{"sha", sha->output.substr(0, sha->output.find('\n'))}};
  git.leave_out_filters();
  if (const auto status = git.run({"status", "--porcelain", "--ignore-submodules=dirty"})) {
    json["dirty"] = !status->output.empty();
    json["status"] = status->output;
  }
  const auto diff = git.run(
      {"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "HEAD"}, kMostDiffBytes);
  if (!diff || diff->output.empty()) return json;
  changes = diff->output;
  json["diff"] = kUncommitted;
  if (diff->cut) json["diff_cut_at_bytes"] = kMostDiffBytes;
  return json;
}

// Returns the value after "key   : " of the first line that begins with the key.
std::string field(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// Linux has numbers where x86 has a name: "CPU implementer : 0x41", "CPU part : 0xd4f". Those of servers, from the
// processors' technical reference manuals.
std::string arm_name(const fs::path& cpuinfo) {
  static const std::map<std::string, std::string> kProcessors{
      {"0x41 0xd08", "ARM Cortex-A72"},  {"0x41 0xd0c", "ARM Neoverse N1"}, {"0x41 0xd40", "ARM Neoverse V1"},
      {"0x41 0xd49", "ARM Neoverse N2"}, {"0x41 0xd4f", "ARM Neoverse V2"}, {"0x41 0xd84", "ARM Neoverse V3"},
      {"0x41 0xd8e", "ARM Neoverse N3"}, {"0x46 0x001", "Fujitsu A64FX"},   {"0xc0 0xac3", "Ampere-1"},
      {"0xc0 0xac4", "Ampere-1a"}};
  const auto implementer = field(cpuinfo, "CPU implementer"), part = field(cpuinfo, "CPU part");
  if (implementer.empty() || part.empty()) return "";
  const auto known = kProcessors.find(implementer + " " + part);
  if (known != kProcessors.end()) return known->second;
  return "ARM processor (implementer " + implementer + ", part " + part + ")";
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
  Json json = {{"model", processor_name(proc)}, {"count", ::sysconf(_SC_NPROCESSORS_ONLN)}};
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) json["allowed"] = CPU_COUNT(&allowed);
  return json;
}

Json describe_plugins(const std::vector<fs::path>& files) {
  Json plugins = Json::array();
  for (const auto& file : files) {
    Json plugin = {{"file", file.string()}};
    try {
      plugin["sha256"] = sha256_file(file);
    } catch (const UserError& error) {
      plugin["error"] = error.what();
    }
    plugins.push_back(std::move(plugin));
  }
  return plugins;
}

bool changes_runs(const std::string& name) {
  const auto begins = [&](const char* prefix) { return name.starts_with(prefix); };
  return begins("DDPRUN_") || begins("OMP_") || begins("MKL_") || begins("NCCL_") || begins("GLOO_") ||
         begins("TORCH_") || begins("ATEN_") || begins("ONEDNN_") || begins("DNNL_") || begins("CUBLAS_") ||
         begins("SLURM_JOB_ID") || name == "CUDA_VISIBLE_DEVICES" || name == "NVIDIA_TF32_OVERRIDE" ||
         name == "LD_PRELOAD" || name == "MALLOC_CONF";
}

bool looks_secret(const std::string& name) {
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
                     [&](const char* word) { return name.find(word) != std::string::npos; });
}

// Leaves out what the experiment uses as secrets, whatever its name.
Json describe_variables(const std::string& config_yaml) {
  Json variables = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool is_secret = looks_secret(name) || config_yaml.find("${secret:" + name + "}") != std::string::npos;
    if (changes_runs(name))
      variables[name] = is_secret ? "(left out)" : text.substr(std::min(text.size(), name.size() + 1));
  }
  return variables;
}

}  // namespace

std::string processor_name(const fs::path& proc) {
  const auto model = field(proc / "cpuinfo", "model name");
  return model.empty() ? arm_name(proc / "cpuinfo") : model;
}

RecordedEnvironment describe_environment(const RunRecord& record, const fs::path& proc) {
  RecordedEnvironment recorded;
  utsname system = {};
  ::uname(&system);
  std::error_code ignored;
  Json json = {{"time", time_stamp()},
               {"attempt", record.attempt},
               {"host", system.nodename},
               {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
               {"arguments", record.arguments},
               {"folder", fs::current_path(ignored).string()},
               {"cpu", describe_cpu(proc)},
               {"memory", field(proc / "meminfo", "MemTotal")},
               {"gpus", describe_gpus(proc)},
               {"plugins", describe_plugins(record.plugin_files)},
               {"variables", describe_variables(record.config_yaml)}};
  if (gpus_are_pretended()) json["pretended_gpus"] = true;
  json["versions"] = Json::object();
  for (const auto& [name, version] : record.versions) json["versions"][name] = version;
  if (const auto driver = field(proc / "driver/nvidia/version", "NVRM version"); !driver.empty())
    json["driver"] = driver;
  if (auto commit = describe_git(recorded.uncommitted); !commit.is_null()) json["git"] = std::move(commit);
  recorded.json = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return recorded;
}

}  // namespace ddprun

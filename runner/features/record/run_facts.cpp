// SPDX-License-Identifier: MIT
#include "features/record/run_facts.h"

#include "base/log.h"
#include "runs/config_lines.h"
#include "runs/run_state.h"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOfValue = 60;  // characters of a value
constexpr size_t kSha256 = 64;

const std::set<std::string> kNoEffect{"run.dir",
                                      "checkpoint.resume",
                                      "variables.SLURM_JOB_ID",
                                      "time",
                                      "attempt",
                                      "arguments",
                                      "folder",
                                      "memory",
                                      "host",
                                      "plugins",
                                      "git.status",
                                      "git.diff"};

void add(std::map<std::string, std::string>& facts, const std::string& name, const nlohmann::json& json) {
  if (kNoEffect.contains(name) || name.starts_with("variables.DDPRUN_")) return;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) add(facts, name.empty() ? key : name + "." + key, value);
  } else if (!json.is_null()) {
    facts[name] = json.is_string() ? json.get<std::string>() : json.dump();
  }
}

std::map<std::string, std::string> experiment_facts(const fs::path& run_dir) {
  std::vector<std::string> problems;
  std::map<std::string, std::string> facts;
  const auto config = read_config(run_dir / "config.yaml", problems);
  if (!config) return facts;
  for (const auto& [key, value] : single_values(*config))
    if (!kNoEffect.contains(key)) facts[key] = value;
  return facts;
}

std::map<std::string, std::string> data_facts(const fs::path& run_dir) {
  std::map<std::string, std::string> facts;
  add(facts, "", read_json_file(run_dir / "data.json"));
  return facts;
}

std::string shown(const std::map<std::string, std::string>& facts, const std::string& name) {
  const auto found = facts.find(name);
  if (found == facts.end()) return "not there";
  const auto text = found->second.substr(0, found->second.find('\n'));
  if (text.size() == kSha256 && text.find_first_not_of("0123456789abcdef") == text.npos) return text.substr(0, 12);
  return text.size() > kMostOfValue ? text.substr(0, kMostOfValue) + "..." : text;
}

}  // namespace

std::map<std::string, std::string> environment_facts(const fs::path& file) {
  std::map<std::string, std::string> facts;
  const auto environment = read_json_file(file);
  if (!environment.is_object()) return facts;
  add(facts, "", environment);
  for (const auto& plugin : environment.value("plugins", nlohmann::json::array())) {
    if (plugin.is_object())
      facts["the build of " + fs::path(plugin.value("file", "")).filename().string()] =
          plugin.value("sha256", "unknown");
  }
  return facts;
}

RunFacts run_facts(const fs::path& run_dir, const fs::path& made_again) {
  const auto& made = made_again.empty() ? run_dir : made_again;
  return {{"experiment", experiment_facts(run_dir)},
          {"environment", environment_facts(made / "environment.json")},
          {"data", data_facts(made)}};
}

std::vector<std::string> differences(const RunFacts& first, const RunFacts& second) {
  std::vector<std::string> lines;
  for (const auto& [kind, ours] : first) {
    const auto found = second.find(kind);
    const auto theirs = found == second.end() ? std::map<std::string, std::string>() : found->second;
    std::set<std::string> names;
    for (const auto* facts : {&ours, &theirs})
      for (const auto& [name, value] : *facts) names.insert(name);
    for (const auto& name : names) {
      const auto one = ours.find(name), other = theirs.find(name);
      if (one != ours.end() && other != theirs.end() && one->second == other->second) continue;
      lines.push_back(kind + ": " + name + " is " + shown(ours, name) + " and " + shown(theirs, name));
    }
  }
  return lines;
}

std::vector<std::string> with_library_variables(std::vector<std::string> environment,
                                                const fs::path& environment_file) {
  constexpr const char* kNames[] = {"ATEN_CPU_CAPABILITY",
                                    "CUBLAS_WORKSPACE_CONFIG",
                                    "DNNL_DEFAULT_FPMATH_MODE",
                                    "DNNL_MAX_CPU_ISA",
                                    "MKL_CBWR",
                                    "MKL_ENABLE_INSTRUCTIONS",
                                    "MKL_NUM_THREADS",
                                    "NVIDIA_TF32_OVERRIDE",
                                    "OMP_DYNAMIC",
                                    "OMP_NUM_THREADS",
                                    "OMP_THREAD_LIMIT",
                                    "ONEDNN_DEFAULT_FPMATH_MODE",
                                    "ONEDNN_MAX_CPU_ISA",
                                    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"};
  const auto recorded = read_json_file(environment_file);
  const auto variables = recorded.is_object() ? recorded.value("variables", nlohmann::json()) : nlohmann::json();
  if (!variables.is_object()) return environment;
  for (const auto* name : kNames) {
    const auto begin = std::string(name) + "=";
    const bool known = variables.contains(name);
    if (known && !variables[name].is_string()) continue;
    std::erase_if(environment, [&](const std::string& text) { return text.starts_with(begin); });
    if (known) environment.push_back(begin + variables[name].get<std::string>());
  }
  return environment;
}

}  // namespace ddprun

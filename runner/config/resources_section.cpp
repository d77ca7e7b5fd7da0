// SPDX-License-Identifier: MIT
#include "config/interval.h"
#include "config/sections.h"

#include <algorithm>
#include <regex>

namespace ddprun {
namespace {

constexpr int64_t kMostNodes = 65536, kMostOfANode = 65536;

// Reads a size in units of 1024, as Slurm writes them: 64Gi is 64G.
std::string read_bytes(Options& options, std::string_view name, std::string_view help) {
  const auto text = options.get<std::string>(name, "", help);
  static const std::regex kForm("([1-9][0-9]{0,8}[MGT])i?");
  std::smatch parts;
  if (text.empty()) return "";
  if (std::regex_match(text, parts, kForm)) return parts[1];
  options.reject(name, "expected a whole number with M, G or T (or Mi, Gi, Ti), such as 64G, found \"" + text + "\"");
  return "";
}

void read_cpus(Options& options, ResourcesConfig& resources) {
  resources.cpus_per_worker =
      options.get<int64_t>("cpus_per_worker", 0, "CPUs per worker; 0: the scheduler's default", {0, kMostOfANode});
  resources.cpus_per_node =
      options.get<int64_t>("cpus_per_node", 0, "CPUs of all workers of a node together", {0, kMostOfANode});
  if (resources.cpus_per_worker > 0 && resources.cpus_per_node > 0)
    options.reject("cpus_per_node", "cannot be combined with cpus_per_worker; choose one");
}

// Returns whether the text can be one line of a script.
bool is_line(const std::string& text) {
  const auto is_control = [](unsigned char byte) { return (byte < 0x20 && byte != '\t') || byte == 0x7F; };
  return text.find_first_not_of(" \t") != std::string::npos && std::ranges::none_of(text, is_control);
}

bool is_option(const std::string& text) { return text.starts_with("-") && is_line(text); }

}  // namespace

ResourcesConfig read_resources(Options& options) {
  ResourcesConfig resources;
  resources.nodes = options.get<int64_t>("nodes", 0, "number of machines; 0: launch.nodes", {0, kMostNodes});
  resources.gpus = options.get<int64_t>("gpus", 0, "GPUs per node", {0, kMostOfANode});
  read_cpus(options, resources);
  resources.memory = read_bytes(options, "memory", "memory per node, such as 64G or 64Gi, which mean the same");
  resources.seconds = read_duration(options, "time", "limit of the job, such as 90min, 2h, 01:30:00 or 1-12:00:00");
  resources.slurm = options.get<std::vector<std::string>>(
      "slurm", {}, "more sbatch options, such as [--partition=accel, --account=project]");
  if (!std::ranges::all_of(resources.slurm, is_option))
    options.reject("slurm", "expected sbatch options, one per text, such as --partition=accel");
  resources.setup = options.get<std::vector<std::string>>(
      "setup", {}, "lines of bash before srun, such as [module load CUDA, export NCCL_SOCKET_IFNAME=hsn]");
  if (!std::ranges::all_of(resources.setup, is_line))
    options.reject("setup", "expected lines of bash, one per text, such as [module load CUDA]");
  resources.container = options.get<std::string>("container", "", "the image that Apptainer runs ddprun in");
  return resources;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <regex>

#include "config/interval.h"
#include "config/sections.h"

namespace ddprun {
namespace {

constexpr int64_t kMostNodes = 65536, kMostOfANode = 65536;
constexpr int64_t kMostUser = 2147483647;

std::string read_memory(Options& options) {
  auto memory = options.get<std::string>("memory", "", "of each node: 64G");
  static const std::regex form("[1-9][0-9]{0,8}[MGT]");
  if (memory.empty() || std::regex_match(memory, form)) return memory;
  options.reject("memory", "expected a whole number with M, G or T, such as 64G, found \"" + memory + "\"");
  return "";
}

// Each becomes one line of a script.
bool is_option(const std::string& text) {
  const auto is_control = [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; };
  return text.starts_with("-") && std::ranges::none_of(text, is_control);
}

}  // namespace

ResourcesConfig read_resources(Options& options) {
  ResourcesConfig resources;
  resources.nodes = options.get<int64_t>("nodes", 0, "machines; 0: as launch.nodes", {0, kMostNodes});
  resources.gpus = options.get<int64_t>("gpus", 0, "of each node", {0, kMostOfANode});
  resources.cpus = options.get<int64_t>("cpus", 0, "of each worker; 0: the scheduler's default", {0, kMostOfANode});
  resources.memory = read_memory(options);
  resources.seconds = read_duration(options, "time", "of the job, as 90min, 2h, 01:30:00 or 1-12:00:00");
  resources.slurm = options.get<std::vector<std::string>>(
      "slurm", {}, "more options of sbatch: [--partition=accel, --account=project]");
  if (!std::ranges::all_of(resources.slurm, is_option))
    options.reject("slurm", "expected options of sbatch, one in each text, such as --partition=accel");
  resources.container = options.get<std::string>("container", "", "Slurm: the image that Apptainer runs ddprun in");
  resources.image = options.get<std::string>("image", "", "Kubernetes: the pods' image, with ddprun in it");
  resources.claim = options.get<std::string>("claim", "", "Kubernetes: the volume claim for the outputs of all pods");
  resources.user = options.get<int64_t>(
      "user", 0, "Kubernetes: the number of the user that pods run as, none of them as root; 0: the image's own",
      {0, kMostUser});
  return resources;
}

}  // namespace ddprun

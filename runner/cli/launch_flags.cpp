// SPDX-License-Identifier: MIT
#include "cli/launch_flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

namespace ddprun {
namespace {

struct Flag {
  const char* name;
  const char* shorter;  // nullptr: none
  const char* value;
  std::optional<Setting> LaunchFlags::*setting;
  const char* help;
};

constexpr Flag kFlags[] = {
    {"--nnodes", "-n", "N", &LaunchFlags::nnodes, "nodes of the job, or MIN:MAX where they may come and go"},
    {"--nproc-per-node", "-g", "N", &LaunchFlags::nproc_per_node, "workers of each node: a number, auto, gpu or cpu"},
    {"--node-rank", nullptr, "N", &LaunchFlags::node_rank, "which of the nodes this is, from 0; also -nr"},
    {"--rdzv-endpoint", nullptr, "HOST[:PORT]", &LaunchFlags::rdzv_endpoint,
     "where the nodes meet: the first one's address, the same on all (port: 29400)"},
    {"--rdzv-id", nullptr, "NAME", &LaunchFlags::rdzv_id, "the job's name, the same on all nodes"},
    {"--rdzv-backend", nullptr, "NAME", &LaunchFlags::rdzv_backend,
     "taken as torchrun takes it, c10d or static; it changes nothing"},
    {"--max-restarts", nullptr, "N", &LaunchFlags::max_restarts, "how often failed workers are started again"},
    {"--master-addr", nullptr, "HOST", &LaunchFlags::master_addr, "--rdzv-endpoint in two parts"},
    {"--master-port", nullptr, "PORT", &LaunchFlags::master_port, "the other (29500)"},
};
constexpr const char* kStandalone = "--standalone";

bool is_launch_flag(const std::string& name) {
  return name == kStandalone || std::ranges::any_of(kFlags, [&](const auto& flag) { return name == flag.name; });
}

}  // namespace

void add_launch_flags(CLI::App& command, LaunchFlags& flags) {
  const std::string group = "Several nodes (docs/launching.md)";
  for (const auto& flag : kFlags) {
    const auto take = [&flags, flag](const std::string& value) { flags.*flag.setting = Setting{flag.name, value}; };
    const auto names = flag.shorter ? std::string(flag.shorter) + "," + flag.name : std::string(flag.name);
    command.add_option_function<std::string>(names, take, flag.help)->type_name(flag.value)->group(group);
  }
  command.add_flag_callback(
             kStandalone, [&flags] { flags.standalone = Setting{kStandalone, ""}; }, "this node alone")
      ->group(group);
}

std::vector<std::string> with_plain_launch_flags(std::vector<std::string> words) {
  static const std::map<std::string, std::string> kOthers{
      {"-nr", "--node-rank"}, {"--nr", "--node-rank"}, {"--nodes", "--nnodes"}, {"--gpus", "--nproc-per-node"}};
  for (size_t i = 0; i < words.size(); ++i) {
    auto& word = words[i];
    const auto equals = std::min(word.find('='), word.size());
    auto name = word.substr(0, equals);
    if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
    if (const auto other = kOthers.find(name); other != kOthers.end()) name = other->second;
    if (is_launch_flag(name)) word = name + word.substr(equals);
    if (name != "--epochs") continue;
    const bool apart = equals == word.size() && i + 1 < words.size();
    word = "trainer.max_epochs=" + (apart ? words[i + 1] : word.substr(std::min(equals + 1, word.size())));
    if (apart) words.erase(words.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
  return words;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "agent/same_experiment.h"

#include "base/log.h"
#include "runs/config_lines.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>
#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 11> kOwn{
    "name",           "run",         "resources",      "loggers",       "plugin_path",      "launch.workers",
    "launch.threads", "launch.bind", "launch.address", "launch.device", "launch.token_file"};
constexpr size_t kMostKeys = 3;

// Returns whether the key is a node's own, or lies below one: "loggers[0].plugin".
bool is_own(std::string_view path) {
  return std::ranges::any_of(kOwn, [path](std::string_view key) {
    return path.starts_with(key) && (path.size() == key.size() || path[key.size()] == '.' || path[key.size()] == '[');
  });
}

// Adds a plugin by its file's digest: any path to the same file is equally good.
void add_plugin(const UsedPlugin& plugin, CommonPart& parts) {
  parts[plugin.path + ".plugin"] = fs::path(plugin.plugin).filename();
  parts["the file of " + plugin.path + "'s plugin"] =
      plugin.file.filename().string() + ", SHA-256 " + sha256_file(plugin.file).substr(0, 16);
}

std::string or_nothing(const CommonPart& parts, const std::string& key) {
  const auto found = parts.find(key);
  return found == parts.end() ? "not set" : found->second;
}

// A path none of whose folders exists would stay a relative one.
fs::path whole_path(const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); }

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto relative = whole_path(path).lexically_relative(whole_path(folder));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

CommonPart common_part(const CheckedExperiment& checked) {
  CommonPart parts{{"ddprun", DDPRUN_VERSION}, {"LibTorch", TORCH_VERSION}};
  for (const auto& [path, text] : single_values(checked.as_written)) {
    if (!is_own(path)) parts[path] = text;
  }
  for (const auto& plugin : checked.plugins) {
    if (!is_own(plugin.path)) add_plugin(plugin, parts);
  }
  return parts;
}

void require_same_experiment(const CommonPart& first_nodes, const CommonPart& own) {
  CommonPart all = own;
  all.insert(first_nodes.begin(), first_nodes.end());
  std::string text;
  size_t count = 0;
  for (const auto& [key, value] : all) {
    const auto there = or_nothing(first_nodes, key), here = or_nothing(own, key);
    if (there == here || ++count > kMostKeys) continue;
    text += log::text(text.empty() ? "" : "; ", key, ": ", there, " there, ", here, " here");
  }
  if (count == 0) return;
  if (count > kMostKeys) text += log::text("; and ", count - kMostKeys, " more");
  throw UserError("the first node trains another experiment: " + text + ". Start all nodes with the same command");
}

void require_expected_places(const Attempt& attempt, const Experiment& experiment, const fs::path& run_dir) {
  const auto expected = run_dir.empty() ? fs::path("outputs") / experiment.name : run_dir;
  const bool there =
      run_dir.empty() ? lies_in(attempt.run_dir, expected) : whole_path(attempt.run_dir) == whole_path(expected);
  if (!there)
    throw UserError(
        "the first node says that the run's folder is " + attempt.run_dir.string() +
        ", but by this node's command it is " + (run_dir.empty() ? "one in " : "") +
        fs::absolute(expected).lexically_normal().string() +
        ". Give all nodes the same run.dir=FOLDER, or a token (`ddprun docs security`), which proves who the "
        "first node is");
  const auto& asked = experiment.checkpoint;
  const bool own_checkpoint = attempt.checkpoint.empty() || lies_in(attempt.checkpoint, attempt.run_dir) ||
                              (asked.resume == Resume::kFrom && lies_in(attempt.checkpoint, asked.resume_from));
  if (!own_checkpoint)
    throw UserError("the first node says that the run resumes from " + attempt.checkpoint.string() +
                    ", which is neither in the run's folder nor what checkpoint.resume names here");
}

}  // namespace ddprun

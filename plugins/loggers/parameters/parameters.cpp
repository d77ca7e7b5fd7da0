// SPDX-License-Identifier: MIT
#include "parameters.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun {
namespace {

using Take = std::function<void(const std::string& path, const YAML::Node& value)>;

constexpr std::array<std::string_view, 5> kNoParameters{"run", "launch", "resources", "loggers", "plugin_path"};

void visit(const std::string& path, const YAML::Node& node, const Take& take) {
  if (node.IsScalar() || node.IsSequence()) take(path, node);
  if (!node.IsMap()) return;
  for (const auto& entry : node) {
    const auto& key = entry.first.Scalar();
    const bool left_out = path.empty() && std::ranges::find(kNoParameters, key) != kNoParameters.end();
    if (!left_out) visit(path.empty() ? key : path + "." + key, entry.second, take);
  }
}

}  // namespace

void visit_parameters(const std::string& config_yaml, const Take& take) { visit("", YAML::Load(config_yaml), take); }

}  // namespace ddprun

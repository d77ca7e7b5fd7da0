// SPDX-License-Identifier: MIT
#include "params.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "names.h"

namespace ddprun::mlflow {
namespace {

constexpr std::array<std::string_view, 5> kNoParameters{"run", "launch", "resources", "loggers", "plugin_path"};
constexpr size_t kMostValueBytes = 6000;

std::string on_one_line(const YAML::Node& node) {
  auto list = YAML::Clone(node);
  list.SetStyle(YAML::EmitterStyle::Flow);
  return YAML::Dump(list);
}

class Collector {
 public:
  void collect(const std::string& path, const YAML::Node& node) {
    if (node.IsScalar()) add(path, node.Scalar());
    if (node.IsSequence()) add(path, on_one_line(node));
    if (!node.IsMap()) return;
    for (const auto& entry : node) {
      const auto& key = entry.first.Scalar();
      const bool left_out = path.empty() && std::ranges::find(kNoParameters, key) != kNoParameters.end();
      if (!left_out) collect(path.empty() ? key : path + "." + key, entry.second);
    }
  }

  std::map<std::string, std::string> params;

 private:
  void add(const std::string& name, const std::string& value) {
    params.emplace(names_.legal(name), cut(value, kMostValueBytes));
  }
  NameTable names_;
};

}  // namespace

std::map<std::string, std::string> params_of(const std::string& config_yaml) {
  Collector collector;
  collector.collect("", YAML::Load(config_yaml));
  return collector.params;
}

}  // namespace ddprun::mlflow

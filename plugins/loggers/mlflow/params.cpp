// SPDX-License-Identifier: MIT
#include "params.h"

#include "names.h"

#include <parameters.h>

namespace ddprun::mlflow {
namespace {

constexpr size_t kMostParamBytes = 6000;

std::string on_one_line(const YAML::Node& node) {
  auto list = YAML::Clone(node);
  list.SetStyle(YAML::EmitterStyle::Flow);
  return YAML::Dump(list);
}

}  // namespace

std::map<std::string, std::string> params_of(const std::string& config_yaml) {
  std::map<std::string, std::string> params;
  NameTable names;
  visit_parameters(config_yaml, [&](const std::string& path, const YAML::Node& value) {
    params.emplace(names.legal(path), cut(value.IsScalar() ? value.Scalar() : on_one_line(value), kMostParamBytes));
  });
  return params;
}

}  // namespace ddprun::mlflow

// SPDX-License-Identifier: MIT
#pragma once

#include "config/yaml_reader.h"
#include "metrics/objective.h"

#include <memory>
#include <string>

namespace ddprun::testing {

inline Value yaml(const std::string& text) {
  Problems problems;
  return parse_yaml(text, "", problems).value();
}

// The built-in objective of a section in YAML, "{metrics: [accuracy, f1]}". Throws UserError if that is wrong.
inline std::unique_ptr<Objective> objective(const std::string& name, const std::string& section = "{}") {
  return make_built_in_objective(name, yaml(section), "objective");
}

}  // namespace ddprun::testing

// SPDX-License-Identifier: MIT
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>

namespace ddprun {

// Calls `take` with the path (`optimizer.lr`) and node of every scalar and every list of the experiment, except those
// that say where and when it ran: `run`, `launch`, `resources`, `loggers`, `plugin_path`.
void visit_parameters(const std::string& config_yaml,
                      const std::function<void(const std::string& path, const YAML::Node& value)>& take);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

namespace ddprun::mlflow {

// Every single value of the experiment (`optimizer.lr`), but for those that say where and when it ran: `run`, `launch`,
// `resources`, `loggers`, `plugin_path`. Names and values as MLflow takes them.
std::map<std::string, std::string> params_of(const std::string& config_yaml);

}  // namespace ddprun::mlflow

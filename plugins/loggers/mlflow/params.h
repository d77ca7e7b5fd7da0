// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

namespace ddprun::mlflow {

// Returns every scalar value of the experiment (`optimizer.lr`), except those that say where and when it ran: `run`,
// `launch`, `resources`, `loggers`, `plugin_path`. Names and values are made acceptable to MLflow.
std::map<std::string, std::string> params_of(const std::string& config_yaml);

}  // namespace ddprun::mlflow

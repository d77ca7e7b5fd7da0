// SPDX-License-Identifier: MIT
// What a run's loggers still have to send to their servers, sent from another process than the one that trained.
#pragma once

#include "config/experiment.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct LoggerUpload {
  std::string logger;   // the plugin's name
  std::string problem;  // what could not be sent, and why; empty where nothing is left
};

// Calls Logger::upload of each logger that the experiment names, with the end that summary.json tells.
std::vector<LoggerUpload> upload_run(const std::filesystem::path& run_dir, const Experiment& experiment);

}  // namespace ddprun

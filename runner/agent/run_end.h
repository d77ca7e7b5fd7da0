// SPDX-License-Identifier: MIT
// What the agent does with a run that has ended, by itself or for `ddprun upload` and `ddprun watch`.
#pragma once

#include "config/experiment.h"

#include <ddprun/logger.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// What follows a run: its page report.html; and where it failed, so that rank 0 could not, its loggers' servers are
// told. Never throws; a logger that hangs is waited for some seconds.
void close_run(const std::filesystem::path& run_dir, const Experiment& experiment, bool failed) noexcept;

// Of a run that is saved, and that nobody goes on with by itself.
void tell_how_to_resume(const std::filesystem::path& run_dir);

// What the logger jsonl wrote of the run's start into run.json; nothing where there is no such file, or not all of it.
std::optional<RunStart> read_run_start(const std::filesystem::path& run_dir);

// What one of the run's loggers still has to send to its server.
struct LoggerUpload {
  std::string logger;   // the plugin's name
  std::string problem;  // what could not be sent, and why; empty where nothing is left
};

// Sends it, from another process than the one that trained. Calls Logger::upload of each logger that the experiment
// names, with the end that summary.json tells.
std::vector<LoggerUpload> upload_run(const std::filesystem::path& run_dir, const Experiment& experiment);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Finishes a run that has ended, for the agent or for `ddprun upload` and `ddprun watch`.
#pragma once

#include "config/experiment.h"

#include <ddprun/logger.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// Writes the page report.html and, if the run failed so that rank 0 could not, tells its loggers' servers. Never
// throws; a logger that hangs is waited for some seconds.
void close_run(const std::filesystem::path& run_dir, const Experiment& experiment, bool failed) noexcept;

// Tells the user how to resume a run that was asked to stop, if nothing resumes it by itself.
void tell_how_to_resume(const std::filesystem::path& run_dir, bool is_range_test);

// Tells what a run that has ended well lacks all the same, and what to do about it. Returns the program's exit code:
// that of the run, or kExitFailed in place of kExitDone if something is missing.
int tell_what_is_missing(const std::filesystem::path& run_dir, int exit_code);

// Prints the learning rate that a range test suggests, or why it suggests none. Returns the program's exit code.
int tell_suggested_lr(const std::filesystem::path& run_dir);

// Reads the run's start from run.json, as the logger jsonl wrote it; nothing if the file is missing or incomplete.
std::optional<RunStart> read_run_start(const std::filesystem::path& run_dir);

// The result of sending what one logger still has for its server.
struct LoggerUpload {
  std::string logger;   // the plugin's name
  std::string problem;  // what could not be sent, and why; empty if nothing is left
};

// Sends what the loggers still have, from another process than the one that trained. Calls Logger::upload of each
// logger that the experiment names, with the end recorded in summary.json.
std::vector<LoggerUpload> upload_run(const std::filesystem::path& run_dir, const Experiment& experiment);

}  // namespace ddprun

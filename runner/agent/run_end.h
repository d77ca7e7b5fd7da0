// SPDX-License-Identifier: MIT
// Finishes a run that has ended.
#pragma once

#include "agent/sidecars.h"

#include <filesystem>

namespace ddprun {

// Writes the page report.html. Never throws.
void close_run(const std::filesystem::path& run_dir) noexcept;

// Says how to resume a run that was asked to stop, if nothing resumes it by itself.
void show_how_to_resume(const std::filesystem::path& run_dir, bool is_range_test);

// Says on a node that is not the first how the run has ended.
void show_end(const std::filesystem::path& run_dir, int exit_code, bool is_range_test);

// Says what a run that has ended well lacks all the same, and what to do about it. Returns the program's exit code:
// that of the run, or kExitFailed in place of kExitDone if something is missing.
int report_what_is_missing(const std::filesystem::path& run_dir, int exit_code);

// Prints the learning rate that a range test suggests, or why it suggests none. Returns the program's exit code.
int show_suggested_lr(const std::filesystem::path& run_dir);

// Waits for what sends the run elsewhere, up to a minute, or some seconds if the user or a scheduler has asked for the
// end. What is unsent then is reported and recorded in summary.json, with the command that sends it later.
void send_rest(Sidecars& sidecars, const std::filesystem::path& run_dir, bool stop_requested) noexcept;

}  // namespace ddprun

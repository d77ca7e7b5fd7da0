// SPDX-License-Identifier: MIT
#pragma once

#include "config/experiment.h"

#include <filesystem>

namespace ddprun {

// What follows a run: its page report.html; and where it failed, so that rank 0 could not, its loggers' servers are
// told. Never throws; a logger that hangs is waited for some seconds.
void close_run(const std::filesystem::path& run_dir, const Experiment& experiment, bool failed) noexcept;

// Of a run that is saved, and that nobody goes on with by itself.
void tell_how_to_resume(const std::filesystem::path& run_dir);

}  // namespace ddprun

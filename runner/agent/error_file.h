// SPDX-License-Identifier: MIT
// Writes the file from which torchrun reads why a worker failed (TORCHELASTIC_ERROR_FILE); without it, torchrun shows
// "error_file: <N/A>".
#pragma once

#include "cluster/setting.h"
#include "launch/failure_report.h"

#include <filesystem>
#include <string>

namespace ddprun {

// Writes the first failure of this node's workers or, if no worker of this node failed by itself, what the first node
// reports of the others. Writes nothing for a run that did not fail, nor where there is no file. Never throws.
void write_error_file(const std::filesystem::path& file, const LaunchResult& own, const std::string& others) noexcept;

// Writes what kept this process from joining, or ended it. Returns whether torchrun waits for the file and it was
// written. Never throws.
bool inform_torchrun(const std::string& problem) noexcept;

// Returns whether this process is the first of the ranks that torchrun, mpirun or srun started on this machine, by the
// innermost that did; true if none of them has.
bool is_first_of_its_node(const Environment& environment);
bool is_first_of_its_node() noexcept;  // by its own environment

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// The file from which torchrun takes why a worker failed (TORCHELASTIC_ERROR_FILE); without it, torchrun tells
// "error_file: <N/A>".
#pragma once

#include "cluster/setting.h"
#include "launch/failure_report.h"

#include <filesystem>
#include <string>

namespace ddprun {

// Of the attempt's first failure here, or what the run's leader says of the others' where no worker of this node failed
// by itself. Nothing for a run that did not fail. Never throws.
void write_error_file(const std::filesystem::path& file, const AttemptEnd& end, const std::string& others) noexcept;

// Of what kept this process from taking part, or ended it. Whether torchrun waits for it and it is written. Never
// throws.
bool tell_torchrun(const std::string& problem) noexcept;

// Whether this process is the first of the ranks that torchrun, mpirun or srun has started on this machine, by the
// innermost that did; true where none of them has.
bool is_first_of_its_node(const Environment& environment);
bool is_first_of_its_node() noexcept;  // by its own environment

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// The file from which torchrun takes why a worker failed (TORCHELASTIC_ERROR_FILE); without it, torchrun tells "error_file: <N/A>".
#pragma once

#include "launch/failure_report.h"

#include <filesystem>

namespace ddprun {

// Of the attempt's first failure here. Nothing where no worker of this node failed by itself. Never throws.
void write_error_file(const std::filesystem::path& file, const AttemptEnd& end) noexcept;

}  // namespace ddprun

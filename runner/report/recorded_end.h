// SPDX-License-Identifier: MIT
// How a run ended whose workers did not live to tell: what its rows and checkpoints say of it.
#pragma once

#include <ddprun/logger.h>

#include <filesystem>

namespace ddprun {

// All but the reason: the status is "running" or "interrupted" where nobody has ended the run. What is not recorded is
// 0.
RunEnd recorded_end(const std::filesystem::path& run_dir);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Reconstructs how a run ended whose workers were killed, from its rows and checkpoints.
#pragma once

#include <ddprun/logger.h>

#include <filesystem>

namespace ddprun {

// Fills in everything but the reason; the status is "running" or "interrupted" if nobody has ended the run. What is not
// recorded is 0.
RunEnd recorded_end(const std::filesystem::path& run_dir);

}  // namespace ddprun

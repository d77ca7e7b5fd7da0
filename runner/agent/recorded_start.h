// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/logger.h>

#include <filesystem>
#include <optional>

namespace ddprun {

// What the logger jsonl wrote of the run's start into run.json; nothing where there is no such file, or not all of it.
std::optional<RunStart> read_run_start(const std::filesystem::path& run_dir);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Lists the checkpoints of a run by name and size. `ddprun verify` checks whether they are whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct ListedCheckpoint {
  std::string name;  // step_00001200
  int64_t step = 0;
  uint64_t bytes = 0;
  double saved = 0;  // seconds since 1970
  bool best = false, last = false;
};

// Returns them by ascending steps; empty if there are none.
std::vector<ListedCheckpoint> list_checkpoints(const std::filesystem::path& run_dir);

}  // namespace ddprun

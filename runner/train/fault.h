// SPDX-License-Identifier: MIT
// Death at a chosen point of saving, for tests of the command: what survives kill -9 is asked of the real program.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace ddprun {

// For CheckpointWriter::set_save_observer, whose points these are. DDPRUN_FAULT=kill:<point>:<step>[:<rank>] ends the
// process of that rank (0 where none is given) by SIGKILL when it gets there; without the variable, null. `step` tells
// how far the training is. Throws UserError for a text of another form.
std::function<void(std::string_view point)> fault_from_environment(int rank, std::function<int64_t()> step);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Failures at a chosen point, for tests of the command: what survives them is asked of the real program.
#pragma once

#include <ddprun/model.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace ddprun {

// DDPRUN_FAULT=<kind>:<point>:<step>[:<rank>[:<attempt>]], of rank 0 and attempt 0 where nothing is said. When that
// rank first gets to the point with so many optimizer steps done, it
//
//   kill, segv, abort  dies of that signal         exit   ends with code 3, without a word
//   stop               stops (SIGSTOP)             hang   waits for ever
//   throw              throws a std::runtime_error
//   cut                shuts down all its TCP connections
//   slow               waits 30 ms, and so at every point from then on
//   wait               makes the file $DDPRUN_GATE and waits until it is gone, or the run is asked to stop
//   nan                has NaN among its gradients in the next step; not at `starting` or `connecting`, without a model
//
// The points are the names of heartbeat.h's activities, with _ for a space, and those of
// CheckpointWriter::set_save_observer. Without the variable, and on other ranks and attempts: null. Throws UserError
// for a text of another form.
using ReachPoint = std::function<void(std::string_view point, int64_t step)>;
ReachPoint fault_from_environment(int rank, int attempt, std::function<Model&()> model,
                                  std::function<bool()> stop_requested);

}  // namespace ddprun

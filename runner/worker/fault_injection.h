// SPDX-License-Identifier: MIT
// Injects failures at a chosen point, so that tests see what the real program survives.
#pragma once

#include <ddprun/model.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace ddprun {

// Reads DDPRUN_FAULT=<kind>:<point>:<step>[:<rank>[:<attempt>]]; rank and attempt are 0 by default. When that rank
// first reaches the point after so many optimizer steps, it
//
//   kill, segv, abort  dies of that signal         exit   ends silently with code 3
//   stop               stops (SIGSTOP)             hang   waits for ever
//   throw              throws a std::runtime_error
//   cut                shuts down all its TCP connections
//   slow               waits 30 ms here and at every later point
//   wait               creates the file $DDPRUN_GATE and waits until it is gone, or the run is asked to stop
//   nan                has NaN in its gradients in the next step; not at `starting` or `connecting`, without a model
//   corrupt            has a bit of a weight changed, as by a faulty memory; where there is a model, too
//
// The points are the names of heartbeat.h's activities, with _ for a space, and those of
// CheckpointWriter::set_save_observer. Returns null without the variable, and on other ranks and attempts. Throws
// UserError for a text of another form.
using ReachPoint = std::function<void(std::string_view point, int64_t step)>;
ReachPoint fault_from_environment(int rank, int attempt, std::function<Model&()> model,
                                  std::function<bool()> stop_requested);

}  // namespace ddprun

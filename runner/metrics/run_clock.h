// SPDX-License-Identifier: MIT
// How long a run has taken: each of its commands from its start to its end or, where that was none, to its last
// checkpoint.
#pragma once

#include "base/clock.h"

namespace ddprun {

class RunClock {
 public:
  struct State {
    double earlier = 0;     // seconds of the commands before
    double started_at = 0;  // of the command that wrote this: seconds since 1970
    double seconds = 0;     // since then
  };

  explicit RunClock(double command_started_at) : started_at_(command_started_at), since_(command_started_at) {}

  // Goes on from a checkpoint: one of the same command, which has started its workers again, or of an earlier one.
  void set_state(const State& state) {
    earlier_ = state.earlier + (state.started_at == started_at_ ? 0 : state.seconds);
  }
  State state() const { return {.earlier = earlier_, .started_at = started_at_, .seconds = since_.seconds()}; }

  double seconds() const { return earlier_ + since_.seconds(); }

 private:
  double started_at_;
  TimeSince since_;
  double earlier_ = 0;
};

}  // namespace ddprun

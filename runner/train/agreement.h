// SPDX-License-Identifier: MIT
// Flags that any rank may raise, and that all ranks see at the same step: every rank takes the same branches, or the
// next collective would hang.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace ddprun {

struct Flags {
  bool stop = false;          // somebody was asked to end (SIGTERM)
  bool save = false;          // a checkpoint by the clock is due
  bool time_over = false;     // trainer.max_time has passed
  bool save_failed = false;   // a checkpoint could not be written
  bool measure = false;       // a row of the split "system" is due
  bool nonfinite = false;     // somebody's loss or gradients of a step up to `checked_step` were NaN or infinite
  int64_t checked_step = -1;  // the same on all ranks; -1: none
};

// Exchanges of the ranks' flags. The sum runs beside what comes next, so what goes into one exchange is seen by all in
// the next.
//
// A sum takes as many messages in a row as there are ranks, twice. So where steps are short there is an exchange after
// every so many of them only, as many as fit into kBetweenSeconds. How long they take goes with the flags: all ranks
// come to the same number. It is 1 at first and at most doubles, for one short step says little.
class Agreement {
 public:
  using Clock = std::function<double()>;  // seconds

  static constexpr int64_t kMostSteps = 32;
  static constexpr double kBetweenSeconds = 0.02;

  explicit Agreement(Communicator& communicator, Clock clock = {});

  // After each step of every rank: whether an exchange is due, on all ranks alike. Alone it always is.
  bool due();

  // Keeps this rank's flags, but for the nonfinite step, for its next exchange.
  void keep(const Flags& mine);

  // Hands in this rank's flags with those that it kept, returns what all ranks handed in the time before.
  Flags exchange(const Flags& mine);

  // Waits for the exchange under way and forgets it: before other collectives whose failure would be mistaken for its.
  void settle();

 private:
  struct Pending {
    PendingSum sum;
    int64_t checked_step;
    int64_t steps;  // since the exchange before
  };
  Flags take(Pending pending);

  Communicator& communicator_;
  Clock clock_;
  std::optional<Pending> pending_;
  Flags kept_;
  int64_t every_ = 1;  // steps there is an exchange
  int64_t steps_ = 0;  // since the last
  double exchanged_at_;
};

}  // namespace ddprun

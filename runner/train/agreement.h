// SPDX-License-Identifier: MIT
// Flags that any rank may raise, and that all ranks see at the same step: every rank takes the same branches, or the next
// collective would hang.
#pragma once

#include "dist/communicator.h"

#include <cstdint>
#include <optional>

namespace ddprun {

struct Flags {
  bool stop = false;          // somebody was asked to end (SIGTERM)
  bool save = false;          // a checkpoint by the clock is due
  bool time_over = false;     // trainer.max_time has passed
  bool save_failed = false;   // a checkpoint could not be written
  bool measure = false;       // a row of the split "system" is due
  bool nonfinite = false;     // somebody's loss or gradients of `checked_step` were NaN or infinite
  int64_t checked_step = -1;  // the same on all ranks; -1: none
};

// One exchange in each step of every rank. The sum runs beside the next step, so what is raised in one step is seen by all at
// the end of the next.
class Agreement {
 public:
  explicit Agreement(Communicator& communicator) : communicator_(communicator) {}

  // Hands in this rank's flags, returns what all ranks handed in the time before.
  Flags exchange(const Flags& mine);

  // Waits for the exchange under way and forgets it: before other collectives whose failure would be mistaken for its.
  void settle();

 private:
  Communicator& communicator_;
  std::optional<PendingSum> pending_;
  int64_t pending_step_ = -1;  // its checked_step
};

}  // namespace ddprun

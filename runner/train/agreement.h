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
  bool stop = false;          // a rank was asked to end (SIGTERM)
  bool save = false;          // a checkpoint by the clock is due
  bool save_failed = false;   // a checkpoint could not be written
  uint64_t votes = 0;         // of features, a bit each (feature.h)
  bool may_wait = false;      // a rank has fewer batches ready than steps_ahead(), though it may hold so many
  bool nonfinite = false;     // a rank's loss or gradients in a step up to `checked_step` were NaN or infinite
  int64_t checked_step = -1;  // the same on all ranks; -1: none
};

// Exchanges the ranks' flags. The sum runs in the background, so the flags of one exchange are seen by all in the next.
//
// A sum takes twice as many messages in a row as there are ranks. So with short steps there is only one exchange for as
// many steps as fit into kBetweenSeconds. Their duration travels with the flags, so all ranks come to the same number.
// It is 1 at first and at most doubles, since one short step says little.
class Agreement {
 public:
  using Clock = std::function<double()>;  // seconds

  static constexpr int64_t kMostSteps = 32;
  static constexpr double kBetweenSeconds = 0.02;
  static constexpr double kSlowSeconds = 0.005;

  // `voters` is the number of features, equal on all ranks.
  explicit Agreement(Communicator& communicator, Clock clock = {}, size_t voters = 0);

  // Returns whether an exchange is due, equal on all ranks. Call it after each step of every rank. A single rank always
  // exchanges.
  bool due();

  // Keeps this rank's flags, except may_wait and the nonfinite step, for its next exchange.
  void keep(const Flags& mine);

  // Returns how many steps are made, as far as can be known, before what the next exchange hands in is replaced by what
  // the one after it does: twice those between two exchanges.
  int64_t steps_ahead() const { return 2 * every_; }

  // Hands in this rank's flags with those that it kept; returns what all ranks handed in the last time.
  Flags exchange(const Flags& mine);

  // Returns whether the ranks ask each other before a step whether all have their samples: in the first steps, while
  // they wait for samples longer than kSlowSeconds a step, and where one may have to wait, as may_wait says. Only so is
  // a rank heard that was asked to end while it waits: the others would wait for it within the step. Equal on all
  // ranks.
  bool asks_for_samples() const { return asks_for_samples_; }

  // Returns whether all ranks have theirs, for which this one waited for `seconds`; true where they do not ask.
  bool have_samples(bool mine, double seconds);

  // Waits for the exchange under way and forgets it, before other collectives whose failure would be mistaken for its.
  void settle();

 private:
  struct Pending {
    PendingTensor sum;
    int64_t checked_step;
    int64_t steps;  // since the previous exchange
  };
  Flags take(Pending pending);

  Communicator& communicator_;
  Clock clock_;
  size_t voters_;
  std::optional<Pending> pending_;
  Flags kept_;
  int64_t every_ = 1;  // steps between exchanges
  int64_t steps_ = 0;  // since the last exchange
  double exchanged_at_;
  double waited_ = 0;  // for samples, since the last exchange
  bool asks_for_samples_ = true;
};

}  // namespace ddprun

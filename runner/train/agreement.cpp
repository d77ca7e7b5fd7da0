// SPDX-License-Identifier: MIT
#include "train/agreement.h"

#include "base/clock.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

// What is sent, in this order: flags, times, and the votes of features.
enum Sent : int64_t { kStop, kSave, kSaveFailed, kNonfinite, kMayWait, kMicroseconds, kWaited, kVotes };

}  // namespace

Agreement::Agreement(Communicator& communicator, Clock clock, size_t voters)
    : communicator_(communicator),
      clock_(clock ? std::move(clock) : steady_seconds),
      voters_(voters),
      exchanged_at_(clock_()) {}

bool Agreement::due() { return ++steps_ >= every_ || !communicator_.is_distributed(); }

void Agreement::keep(const Flags& mine) {
  kept_.stop |= mine.stop;
  kept_.save |= mine.save;
  kept_.save_failed |= mine.save_failed;
  kept_.votes |= mine.votes;
}

Flags Agreement::exchange(const Flags& mine) {
  if (!communicator_.is_distributed()) return mine;
  keep(mine);
  const auto flags = std::exchange(kept_, {});
  const auto now = clock_();
  const auto seconds = now - std::exchange(exchanged_at_, now);
  auto sent = at::empty({kVotes + static_cast<int64_t>(voters_)}, at::kLong);
  auto* values = sent.data_ptr<int64_t>();
  for (const bool raised : {flags.stop, flags.save, flags.save_failed, mine.nonfinite, mine.may_wait}) {
    *values++ = raised ? 1 : 0;
  }
  *values++ = static_cast<int64_t>(seconds * 1e6);
  *values++ = static_cast<int64_t>(std::exchange(waited_, 0) * 1e6);
  for (size_t i = 0; i < voters_; ++i) *values++ = static_cast<int64_t>(flags.votes >> i & 1);
  const auto agreed = pending_ ? take(*std::exchange(pending_, std::nullopt)) : Flags{};
  pending_ = {communicator_.start_sum(sent), mine.checked_step, std::exchange(steps_, 0)};
  return agreed;
}

Flags Agreement::take(Pending pending) {
  const auto sums = pending.sum.take();
  const auto* raised = sums.const_data_ptr<int64_t>();
  if (pending.steps > 0) {
    const auto ranks = static_cast<double>(communicator_.world().size);
    const auto per_step = [&](int64_t index) {
      return static_cast<double>(raised[index]) / 1e6 / ranks / static_cast<double>(pending.steps);
    };
    const auto step_seconds = per_step(kMicroseconds);
    asks_for_samples_ = raised[kMayWait] > 0 || per_step(kWaited) > kSlowSeconds;
    const auto most = std::min(2 * every_, kMostSteps);
    every_ = static_cast<int64_t>(std::clamp<double>(kBetweenSeconds / std::max(step_seconds, 1e-9), 1, most));
  }
  uint64_t votes = 0;
  for (size_t i = 0; i < voters_; ++i) votes |= static_cast<uint64_t>(raised[kVotes + i] > 0) << i;
  return {.stop = raised[kStop] > 0,
          .save = raised[kSave] > 0,
          .save_failed = raised[kSaveFailed] > 0,
          .votes = votes,
          .nonfinite = raised[kNonfinite] > 0,
          .checked_step = pending.checked_step};
}

bool Agreement::have_samples(bool mine, double seconds) {
  waited_ += seconds;
  if (!communicator_.is_distributed() || !asks_for_samples_) return mine;
  const auto missing = communicator_.start_sum(at::full({1}, mine ? 0 : 1, at::kLong)).take();
  return missing.item<int64_t>() == 0;
}

void Agreement::settle() {
  if (pending_) pending_->sum.take();
  pending_.reset();
}

}  // namespace ddprun

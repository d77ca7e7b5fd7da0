// SPDX-License-Identifier: MIT
#include "train/batches.h"

#include <utility>

namespace ddprun {

Batches::Batches(const Context& context, Agreement& agreement, std::function<bool()> stop_requested, LeftOut left_out)
    : context_(context),
      agreement_(agreement),
      stop_requested_(std::move(stop_requested)),
      left_out_(std::move(left_out)) {}

const TrainBatch* Batches::next(int64_t step) {
  if (next_) return &*next_;
  if (!loader_)
    loader_ = std::make_unique<TrainLoader>(context_.dataset, context_.experiment.trainer, context_.experiment.seed,
                                            context_.communicator.world(), context_.device, step,
                                            context_.images[static_cast<size_t>(Split::kTrain)], left_out_);
  const Stopwatch time;
  const auto give_up = [this] { return out_of_patience(); };
  next_ = loader_->next_unless(agreement_.asks_for_samples() ? give_up : std::function<bool()>());
  if (agreement_.have_samples(next_.has_value(), time.seconds())) return &*next_;
  drop();
  return nullptr;
}

bool Batches::may_wait() const {
  const auto ahead = agreement_.steps_ahead();
  return ahead <= context_.experiment.trainer.prefetch_batches && loader_->ready(ahead) < ahead;
}

bool Batches::out_of_patience() {
  constexpr double kPatienceSeconds = 1;
  if (!asked_ && stop_requested_()) asked_.emplace();
  return asked_ && asked_->seconds() > kPatienceSeconds;
}

void Batches::drop() {
  next_.reset();
  ddprun::drop(loader_);
}

}  // namespace ddprun

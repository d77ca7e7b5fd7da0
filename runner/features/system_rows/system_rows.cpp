// SPDX-License-Identifier: MIT
// The rows of the split "system" (trainer.system_metrics_seconds): what each rank's steps take of time and memory. Due
// by rank 0's clock, which votes for one, and at the end of a part.
#include "base/clock.h"
#include "features/system_rows/system_rows_section.h"
#include "metrics/system_metrics.h"
#include "step/context.h"
#include "train/feature.h"
#include "train/progress_log.h"

#include <utility>

namespace ddprun {
namespace {

class SystemRows final : public Feature {
 public:
  explicit SystemRows(const Context& context)
      : context_(context),
        every_(context.experiment.features.of<SystemRowsConfig>().seconds),
        metrics_(context.backend.get()) {}

  void after_rows(Loop& /*loop*/) override { ++steps_; }

  bool votes(Loop& /*loop*/) override {
    if (!context_.is_rank_zero() || since_.seconds() < every_) return false;
    since_.restart();
    return true;
  }
  void elected(Loop& loop) override { log(loop); }
  void before_evaluation(Loop& loop) override { log(loop); }

 private:
  void log(Loop& loop) {
    if (steps_ == 0) return;
    auto row = metrics_.row(loop.log.take_phases(), std::exchange(steps_, 0), context_.communicator);
    since_.restart();
    loop.log.log_row("system", std::move(row));
    if (context_.is_rank_zero()) loop.log.note_ranks(metrics_.of_ranks());
  }

  const Context& context_;
  double every_;
  SystemMetrics metrics_;
  int64_t steps_ = 0;  // since the last row
  Stopwatch since_;
};

}  // namespace

std::unique_ptr<Feature> make_system_rows(const Context& context, const TrainPlan& /*plan*/) {
  if (context.experiment.features.of<SystemRowsConfig>().seconds == 0) return nullptr;
  return std::make_unique<SystemRows>(context);
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Histograms of weights and gradients in some steps (histograms.every). All ranks have the same weights and gradients:
// only rank 0 shows them, without communication.
#include "metrics/histograms.h"

#include "comm/replicate.h"
#include "features/histograms/histograms_section.h"
#include "step/context.h"
#include "step/train_step.h"
#include "train/feature.h"
#include "train/progress_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddprun {
namespace {

class Histograms final : public Feature, public StepWatcher {
 public:
  Histograms(const Context& context, const TrainPlan& plan)
      : context_(context), plan_(plan), config_(context.experiment.features.of<HistogramsConfig>()) {}

  Look look(int64_t step) override {
    is_due_ = plan_.due(config_.every, step);
    return is_due_ ? Look::kOperators : Look::kNone;
  }
  StepWatcher* watcher() override { return is_due_ ? this : nullptr; }
  bool needs_gradients() const override { return true; }
  void gradients(const std::vector<NamedParameter>& parameters) override {
    if (context_.is_rank_zero()) gradients_ = histograms_of_gradients(parameters, config_.bins);
  }

  // Gets the weights that other ranks have stepped, on all ranks alike: without, those shown would be of the step
  // before.
  void after_rows(Loop& loop) override {
    if (!std::exchange(is_due_, false)) return;
    loop.step.settle_weights();
    if (gradients_.empty()) return;
    HistogramTable table{.epoch = loop.log.epoch(), .step = loop.state.step};
    table.histograms = histograms_of_weights(trainable_parameters(*context_.model), config_.bins);
    std::ranges::move(gradients_, std::back_inserter(table.histograms));
    gradients_.clear();
    context_.loggers.histograms(table);
  }

 private:
  const Context& context_;
  const TrainPlan& plan_;
  const HistogramsConfig& config_;
  bool is_due_ = false;
  std::vector<Histogram> gradients_;  // of this step
};

}  // namespace

std::unique_ptr<Feature> make_histograms(const Context& context, const TrainPlan& plan) {
  if (context.experiment.features.of<HistogramsConfig>().every.none()) return nullptr;
  return std::make_unique<Histograms>(context, plan);
}

}  // namespace ddprun

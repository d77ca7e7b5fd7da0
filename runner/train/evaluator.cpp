// SPDX-License-Identifier: MIT
#include "train/evaluator.h"

#include "data/batch_source.h"

#include <torch/types.h>

#include <algorithm>

namespace ddprun {
namespace {

// Evaluation mode for a scope.
class EvalMode {
 public:
  explicit EvalMode(Model& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  Model& model_;
  bool was_training_;
};

// As many samples as a rank trains on would depend on the number of ranks: one size for all.
int64_t eval_batch(const TrainerConfig& config) {
  constexpr int64_t kLargestDefault = 256;
  return config.eval_batch > 0 ? config.eval_batch : std::min(config.global_batch, kLargestDefault);
}

}  // namespace

std::optional<std::vector<MetricTotal>> Evaluator::run(Split split, const Limit& limit,
                                                       const std::function<bool()>& agree) {
  const EvalMode mode(*parts_.model);
  const torch::NoGradGuard no_gradients;
  EvalSource source(parts_.dataset, split, eval_batch(config_), limit, config_, parts_.communicator.world(),
                    parts_.device);
  const auto autocast = parts_.precision.autocast();
  MetricSums sums;
  for (int64_t round = 0; round < source.rounds(); ++round) {
    if (source.has_next()) {
      const auto batch = parts_.precision.converted(source.next());
      sums.add(parts_.model->step(batch, parts_.objective), batch.size());
    }
    if (agree()) return std::nullopt;
  }
  return sums.totals(parts_.communicator);
}

}  // namespace ddprun

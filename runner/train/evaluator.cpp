// SPDX-License-Identifier: MIT
#include "train/evaluator.h"

#include "base/log.h"
#include "data/checked_split.h"
#include "data/copy_stream.h"
#include "data/loader.h"
#include "metrics/metric_counts.h"
#include "metrics/objective.h"
#include "metrics/predictions.h"
#include "plugin_host/plugin_call.h"
#include "sharing/out_of_memory.h"
#include "weights/state_guard.h"

#include <ddprun/error.h>

#include <torch/types.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace ddprun {

Evaluation evaluation_of(std::vector<MetricTotal> totals, const std::vector<MetricCounts>& counts,
                         const Objective& objective) {
  Evaluation evaluation{.totals = std::move(totals)};
  if (counts.empty()) return evaluation;
  for (const auto& [name, value] : objective.summary(counts)) {
    require_metric_name(name, "objective: a metric of summary()");
    const bool is_taken =
        std::ranges::find(evaluation.totals, name, &MetricTotal::name) != evaluation.totals.end() ||
        std::ranges::find(evaluation.summary, name, &NamedValues::value_type::first) != evaluation.summary.end();
    if (is_taken) throw UserError("objective: summary() gives a metric " + name + ", which there is already");
    evaluation.summary.emplace_back(name, value);
  }
  const auto confusion = std::ranges::find(counts, kConfusion, &MetricCounts::name);
  if (confusion != counts.end()) evaluation.confusion = confusion->counts;
  return evaluation;
}

NamedValues Evaluation::values(const std::string& split) const {
  auto values = values_of(totals, split);
  for (const auto& [name, value] : summary) values.emplace_back(split.empty() ? name : split + "/" + name, value);
  return values;
}

int64_t eval_batch(const TrainerConfig& config) {
  constexpr int64_t kLargestDefault = 256;
  return config.eval_batch > 0 ? config.eval_batch : std::min(config.global_batch, kLargestDefault);
}

std::optional<Evaluation> Evaluator::run(Split split, const Limit& limit, const Interruption& interruption,
                                         const std::function<void(const std::exception_ptr&)>& share) {
  const EvalMode mode(*parts_.model);
  const torch::NoGradGuard no_gradients;
  auto source = std::make_unique<EvalLoader>(parts_.dataset, split, eval_batch(config_), limit, config_,
                                             parts_.communicator.world(), parts_.device,
                                             parts_.images[static_cast<size_t>(split)]);
  const auto autocast = parts_.precision.autocast();
  constexpr int64_t kReadAfter = 256;  // batches, whose numbers lie on the device until then
  int64_t batches = 0;
  MetricSums sums;
  CountSums counts;
  const auto add_next = [&] {  // ends the loader where its samples do not come
    try {
      auto next = source->next_unless(interruption.give_up);
      if (!next) return drop(source);
      const auto batch = parts_.precision.converted(*std::move(next));
      const auto step = call_step(*parts_.model, batch, parts_.objective);
      sums.add(step, batch.size());
      if (++batches % kReadAfter == 0) sums.read();
      counts.add(step.counts);
    } catch (const std::exception& error) {
      rethrow_with_advice(error, log::text("evaluating the split ", split_name(split)),
                          advice_for_evaluations(eval_batch(config_)));
    }
  };
  std::exception_ptr error;
  const auto rounds = source->rounds();
  for (int64_t round = 0; round <= rounds; ++round) {  // what a rank says in the last one, all know after it
    try {
      if (!error && source && source->has_next()) add_next();
    } catch (...) {
      if (!share) throw;
      error = std::current_exception();
    }
    if (interruption.agreed && interruption.agreed()) return drop(source), std::nullopt;  // it may still load
  }
  if (share) share(error);
  auto totals = sums.totals(parts_.communicator);
  return evaluation_of(std::move(totals), counts.totals(parts_.communicator), parts_.objective);
}

void warn_of_nothing(const Evaluation& evaluation, const std::string& split) {
  if (evaluation.is_of_nothing())
    log::warn("no target of the split " + split + " counts, since all are ignored: its metrics have no value");
}

std::optional<PredictionTable> Evaluator::sample(Split split, const PredictionsConfig& predictions,
                                                 const std::function<bool()>& give_up) try {
  const EvalMode mode(*parts_.model);
  const torch::NoGradGuard no_gradients;
  const auto autocast = parts_.precision.autocast();
  const auto batch_size = eval_batch(config_);
  const auto wanted = predictions.batches * std::min(predictions.images_per_batch, batch_size);
  const auto numbers = spread_numbers(parts_.dataset->size(split), wanted);
  const auto load = [numbers, split, dataset = parts_.dataset, size = static_cast<size_t>(batch_size)](int64_t part) {
    const auto left = std::span(numbers).subspan(static_cast<size_t>(part) * size);
    return CheckedSplit(*dataset, split).get(left.first(std::min(left.size(), size)));
  };
  const auto parts = (static_cast<int64_t>(numbers.size()) + batch_size - 1) / batch_size;
  auto source = std::make_unique<Prefetcher<Batch>>(0, parts, 1, 1, load);
  CopyStream copies(parts_.device);
  PredictionTable table;
  while (!source->done()) {
    auto next = source->next_unless(give_up);
    if (!next) return drop(source), std::nullopt;
    const auto batch = copies.copied(*std::move(next));
    append_rows(table, predict(*parts_.model, parts_.precision.converted(batch), parts_.objective), batch.input,
                *parts_.dataset);
  }
  return table;
} catch (const std::exception& error) {
  rethrow_with_advice(error, log::text("predicting the split ", split_name(split)),
                      advice_for_evaluations(eval_batch(config_)));
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "worker/sanity_check.h"

#include "base/communication_error.h"
#include "config/monitors.h"
#include "data/checked_split.h"
#include "data/data_survey.h"
#include "data/loader.h"
#include "data/mixing.h"
#include "data/sample_order.h"
#include "data/sampling.h"
#include "metrics/metric_counts.h"
#include "metrics/metric_sums.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"
#include "sharing/late_weights.h"
#include "sharing/master_weights.h"
#include "sharing/optimizer_share.h"
#include "sharing/recomputation.h"
#include "step/train_step.h"
#include "step/trials.h"
#include "train/evaluator.h"
#include "train/train_state.h"
#include "weights/base_weights.h"
#include "weights/freezing.h"
#include "weights/layer_decay.h"
#include "weights/model_weights.h"
#include "weights/precision.h"
#include "weights/pretrained_weights.h"
#include "weights/state_guard.h"
#include "worker/data_demands.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>
#include <ddprun/value.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iomanip>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace ddprun {
namespace {

constexpr int64_t kSamples = 16;     // per split
constexpr int64_t kStepSamples = 4;  // per step: enough for BatchNorm, few enough for a large network on a CPU

class Scene {
 public:
  Scene(const Experiment& experiment, const PluginHost& plugins, const Dataset& dataset, int64_t workers)
      : experiment_(experiment), plugins_(plugins), dataset_(dataset), workers_(workers) {}

  SanityCheck play() {
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) look_at(split);
    if (!training_) throw PluginMistake({"dataset", "it has no training samples"});
    training_order(dataset_, experiment_.trainer, experiment_.seed);
    make_model();
    require_something_to_learn(experiment_, dataset_, *model_);
    done_.warnings = doubts_with_data(experiment_, dataset_);
    train();
    if (evaluation_) evaluate(*evaluation_);
    plan();
    return std::move(done_);
  }

 private:
  void look_at(Split split) {
    const auto size = in_plugin({"dataset", "size"}, [&] { return dataset_.size(split); });
    if (size == 0) return;
    const CheckedSplit checked(dataset_, split);
    const auto batch = checked.get(spread_numbers(size, kSamples));
    in_plugin({"dataset", "images"}, [&] {
      if (const auto lent = dataset_.images(split); lent.store) checked.check(*lent.store);
    });
    const auto few = part_of_batch(batch, {0, std::min(kStepSamples, batch.size())});
    done_.splits.emplace_back(split_name(split));
    if (split == Split::kTrain) {
      const AugmentKey key{.seed = experiment_.seed};
      training_ = checked.draw({few.index.const_data_ptr<int64_t>(), static_cast<size_t>(few.size())}, key);
      checked.augment(*training_, key);
      mix();
    } else if (!evaluation_) {
      evaluation_ = few;
    }
  }

  // Returns the samples from `first` to before `end`, round and round: -1 is the last one.
  Batch training_samples(int64_t first, int64_t end) const {
    auto batch = *training_;
    const auto rows = at::arange(first, end, at::kLong).remainder(batch.size());
    batch.replace_tensors([&](const at::Tensor& tensor) { return tensor.index_select(0, rows); });
    batch.index = batch.index.index_select(0, rows);
    return batch;
  }

  // As the loader does, with the last sample before the first.
  void mix() {
    const Mixing mixing(experiment_.trainer, experiment_.seed,
                        in_plugin({"dataset", "spec"}, [&] { return dataset_.spec(); }));
    if (!mixing.enabled()) return;
    training_ = mixing.mixed(training_samples(-1, training_->size()), 0);
  }

  void make_model() {
    torch::manual_seed(experiment_.seed);
    model_ = plugins_.make_model(experiment_.model);
    data_ = in_plugin({"dataset", "spec"}, [&] { return dataset_.spec(); });
    in_plugin({"model", "prepare"}, [&] {
      model_->prepare(data_);
      require_trainable(*model_);
    });
    take_up_frozen(*model_, experiment_.features.of<FreezingConfig>());
    optimizer_ = started_optimizer(plugins_.make_optimizer(experiment_.optimizer), *model_, experiment_);
    recomputation_.emplace(std::vector{model_}, experiment_.trainer.recompute);
    take_pretrained();
  }

  void take_pretrained() {
    const auto& pretrained = experiment_.pretrained;
    auto& lines = done_.pretrained;
    if (!pretrained.file.empty()) lines.push_back(load_pretrained(*model_, pretrained).text(pretrained.file));
    if (pretrained.layer_decay != 1) lines.push_back(layer_decay_text(*model_, pretrained));
    const auto steps = TrainPlan(experiment_.trainer, dataset_.size(Split::kTrain)).steps_per_epoch();
    const Freezing freezing({model_}, experiment_.features.of<FreezingConfig>(), steps);
    if (freezing.is_used()) lines.push_back(freezing.text());
    if (experiment_.checkpoint.only_trainable) {
      done_.left_out = BaseWeights(*model_, freezing.never_trained(), digests_of_weights(*model_)).text();
      left_out_ = freezing.never_trained();
    }
    if (!experiment_.trainer.shard_optimizer) return;
    deal_ = deal_out(*optimizer_, workers_, [&](const std::string& name) { return freezing.ever_trains(name); });
  }

  void train() {
    model_->train();
    const auto objective = watched_objective(experiment_.objective, plugins_, *model_, data_);
    const auto loss = call_step(*model_, *training_, *objective).loss;
    require_loss(loss);
    if (const auto* written = experiment_.config.find("objective"); written && !objective->was_asked())
      done_.warnings.push_back(problem_line(written->origin(), "objective", unused_objective(experiment_)));
    in_plugin({"model", "backward"}, [&] { loss.backward(); });
    done_.step_samples = training_->size();
    done_.unused = without_gradient(trainable_parameters(*model_));
    compare_recomputed(*objective);
    if (experiment_.trainer.shard_optimizer)
      require_waits(*model_, [&] { return call_step(*model_, *training_, *objective).loss; });
    rehearse_smallest_part();
  }

  // The blocks that the experiment names are computed twice.
  void compare_recomputed(const Objective& objective) {
    recomputation_->choose();
    if (!recomputation_->has_chosen()) return;
    const ComparedBlocks compared;
    call_step(*model_, *training_, objective).loss.backward();
  }

  // In the precision of the training; the check proper is in float32. Changes the model. What fails here need not fail
  // on the device of the training.
  void plan() try {
    const Precision precision(experiment_.trainer, at::kCPU);
    precision.convert(*model_);
    if (experiment_.trainer.precision == PrecisionMode::kBf16Master)
      optimizer_ = started_optimizer(plugins_.make_optimizer(experiment_.optimizer), *model_, experiment_);
    const auto objective = watched_objective(experiment_.objective, plugins_, *model_, data_);
    model_->train();
    const auto planned = [&] {
      auto plan = plan_memory(*model_, *optimizer_, experiment_.trainer, [&](int64_t samples) {
        const auto batch = precision.converted(training_samples(0, samples));
        const auto autocast = precision.autocast();
        return call_step(*model_, batch, *objective).loss;
      });
      for (const auto& weight : model_->named_parameters())
        if (left_out_.contains(weight.key())) plan.saved -= static_cast<int64_t>(weight.value().nbytes());
      if (deal_) plan.share(workers_, deal_->largest());
      return plan;
    };
    done_.memory = planned();
    if (!recomputation_->could_choose()) return;
    recomputation_->choose_all();
    done_.recomputed = planned();
  } catch (const std::exception& error) {
    done_.memory_problem = cause_of(error);
  }

  // With as many workers as the experiment names, or one.
  void rehearse_smallest_part() const {
    const auto& config = experiment_.trainer;
    const auto workers = std::max<int64_t>(1, experiment_.launch.workers);
    const StepPlan plan(dataset_.size(Split::kTrain), config.global_batch_of(workers), config.train_batches,
                        config.shards);
    const auto smallest = plan.smallest_part(plan.steps_per_epoch() - 1, workers,
                                             std::max<int64_t>(config.micro_batch, 0), config.sync_batchnorm);
    if (smallest >= training_->size()) return;
    const auto objective = watched_objective(experiment_.objective, plugins_, *model_, data_);
    rehearsed(smallest, [&] { call_step(*model_, part_of_batch(*training_, {0, smallest}), *objective); });
  }

  void evaluate(const Batch& batch) const {
    const EvalMode mode(*model_);
    const torch::NoGradGuard no_gradients;
    const auto objective = watched_objective(experiment_.objective, plugins_, *model_, data_);
    const auto few = call_step(*model_, batch, *objective);
    MetricSums sums;
    sums.add(few, batch.size());
    Communicator alone{CommunicatorOptions{}};
    CountSums counts;
    counts.add(few.counts);
    const auto measured = evaluation_of(sums.totals(alone), counts.totals(alone), *objective);
    std::vector<std::string> known;
    for (const auto& [name, value] : measured.values("val")) known.push_back(name);
    const auto unknown = unknown_monitors(experiment_, known);
    if (!unknown.empty()) throw PluginMistake({unknown.front().key, unknown_metric(unknown.front().metric, known)});
  }

  const Experiment& experiment_;
  const PluginHost& plugins_;
  const Dataset& dataset_;
  int64_t workers_;
  DataSpec data_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<Optimizer> optimizer_;
  std::optional<Recomputation> recomputation_;  // of the model
  std::optional<Deal> deal_;                    // with trainer.shard_optimizer
  std::set<std::string> left_out_;              // parameters, of checkpoints with checkpoint.only_trainable
  std::optional<Batch> training_, evaluation_;
  SanityCheck done_;
};

}  // namespace

SanityCheck run_sanity_check(const Experiment& experiment, const PluginHost& plugins, const Dataset& dataset,
                             int64_t workers) {
  return Scene(experiment, plugins, dataset, workers).play();
}

namespace {

constexpr auto kHint =
    ". This check computes in double precision, which converts only what the model registers: pass every layer and "
    "tensor to register_module(), register_parameter() or register_buffer(), or it is neither trained nor saved";

}  // namespace

std::vector<check::GradientFinding> check_gradients(Model& model, const Objective& objective, Batch batch,
                                                    int64_t numbers, uint64_t seed) {
  const auto loss_of = [&](const Batch& one) { return call_step(model, one, objective).loss; };
  try {
    return check::compare_gradients(model, loss_of, std::move(batch), numbers, seed);
  } catch (const PluginFailure& error) {
    const bool mixes_types =
        error.problem.find("Double") != std::string::npos || error.problem.find("double") != std::string::npos;
    if (!mixes_types) throw;
    throw PluginFailure({error.section, error.problem + kHint});
  }
}

std::string gradient_report(const std::vector<check::GradientFinding>& findings) {
  size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.parameter.size());
  std::ostringstream text;
  int64_t wrong = 0, unused = 0;
  for (const auto& finding : findings) {
    text << "  " << std::left << std::setw(static_cast<int>(width) + 2) << finding.parameter;
    if (!finding.has_gradient) {
      text << "no gradient: the loss does not depend on it\n";
      ++unused;
      continue;
    }
    text << finding.checked << " numbers, largest relative error " << std::scientific << std::setprecision(1)
         << finding.largest_error << (finding.wrong() ? "  WRONG" : "") << "\n";
    wrong += finding.wrong() ? 1 : 0;
  }
  text << (wrong == 0 ? "backward agrees with finite differences"
                      : "backward does not agree with finite differences in " + std::to_string(wrong) + " parameters");
  if (unused > 0) {
    text << "; " << unused << " unused: remove them, or set trainer.find_unused_parameters=true for several workers";
  }
  text << "\n";
  return text.str();
}

}  // namespace ddprun

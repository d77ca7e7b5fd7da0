// SPDX-License-Identifier: MIT
#include "metrics/objective.h"

#include "config/monitors.h"
#include "metrics/class_metrics.h"
#include "metrics/measured_objective.h"
#include "metrics/metric_counts.h"
#include "metrics/metric_sums.h"
#include "metrics/value_metrics.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <sstream>

namespace ddprun {
namespace {

[[noreturn]] void shapes_do_not_fit(const char* name, const char* expected, const at::Tensor& prediction,
                                    const at::Tensor& target) {
  std::ostringstream text;
  text << name << " expects " << expected << "; the model returned " << prediction.sizes() << " "
       << prediction.scalar_type() << ", the dataset's target is " << target.sizes() << " " << target.scalar_type();
  throw PluginMistake({"objective", text.str()});
}

// Widens to float32, in which losses are computed at least: under mixed precision a model returns 16 bits.
at::Tensor widened(const at::Tensor& values) {
  return values.scalar_type() == at::kDouble ? values : values.to(at::kFloat);
}

// One weight for each class. The loss is the mean over what counts of weight[class] * loss, not divided by the batch's
// weights as torch's is (docs/decisions/0006).
class ClassWeights {
 public:
  explicit ClassWeights(Options& options)
      : weights_(options.get<std::vector<double>>("class_weights", {},
                                                  "what a sample of each class counts; all 1 by default", {.min = 0})) {
    if (!weights_.empty() && std::ranges::none_of(weights_, [](double weight) { return weight > 0; }))
      options.reject("class_weights", "are all 0, so that the loss is always 0; expected one above 0 at least");
  }

  bool are_equal() const { return weights_.empty(); }

  at::Tensor as(const at::Tensor& prediction) const {
    if (static_cast<int64_t>(weights_.size()) != prediction.size(1)) {
      throw PluginMistake({"objective.class_weights", std::to_string(weights_.size()) +
                                                          " weights, but the model predicts " +
                                                          std::to_string(prediction.size(1)) + " classes"});
    }
    return on(prediction);
  }

 private:
  // Returns the weights on the prediction's device and in its type. They are created once for each: moving them waits
  // for a GPU, which no captured step may do. Called from several threads with trainer.strategy dp.
  at::Tensor on(const at::Tensor& prediction) const {
    const std::scoped_lock lock(mutex_);
    const auto fits = [&](const at::Tensor& made) {
      return made.device() == prediction.device() && made.scalar_type() == prediction.scalar_type();
    };
    const auto made = std::ranges::find_if(made_, fits);
    return made != made_.end() ? *made
                               : made_.emplace_back(at::tensor(weights_, prediction.options().requires_grad(false)));
  }

  std::vector<double> weights_;
  mutable std::mutex mutex_;
  mutable std::vector<at::Tensor> made_;
};

// Predictions of C classes against one class index each: of samples, of their symbols or of their pixels.
class ClassObjective : public Objective {
 public:
  ClassObjective(const char* name, Options& options)
      : name_(name), weights_(options), measures_(name, ClassMetrics::Of::kClasses, options) {}

  void prepare(const DataSpec& data) final { measures_.set_names(data.class_names); }

  // Pixels are computed as they are: flattened, another kernel would round otherwise than PyTorch's does for them.
  at::Tensor loss(const at::Tensor& predicted, const at::Tensor& targets) const final {
    const bool of_parts = are_of_parts(predicted, targets);
    const auto [prediction, target] =
        predicted.dim() >= 4 && of_parts ? Predicted{predicted, targets} : as_samples(predicted, targets);
    const bool is_hard = prediction.dim() == 2 && target.dim() == 1 && prediction.size(0) == target.size(0) &&
                         target.scalar_type() == at::kLong;
    if (!of_parts && !is_hard && !(takes_shares() && are_shares(prediction, target))) {
      shapes_do_not_fit(name_,
                        "[B, C] predictions and [B] int64 classes, of sequences [B, T, C] and [B, T], of pixels [B, C, "
                        "H, W] and [B, H, W], or of voxels [B, C, D, H, W] and [B, D, H, W]",
                        predicted, targets);
    }
    return mean_loss(prediction, target, of_parts ? counted(target) : at::Tensor());
  }

  at::Tensor counted(const at::Tensor& target) const final { return count_classes(target); }

  bool takes_parts() const final { return true; }

  std::vector<MetricSum> metrics(const at::Tensor& predicted, const at::Tensor& targets) const final {
    const auto [prediction, target] = as_samples(predicted.detach(), targets);
    const auto count = are_of_parts(predicted, targets) ? counted(target) : at::Tensor();
    return measures_.sums(prediction, hard(target), count);
  }

  std::vector<MetricCounts> counts(const at::Tensor& predicted, const at::Tensor& soft_or_hard) const final {
    const auto [prediction, targets] = as_samples(predicted.detach(), soft_or_hard);
    const auto target = hard(targets);
    auto counts = measures_.counts(*this, prediction, target);
    if (measures_.wants_confusion())
      counts.push_back({.name = kConfusion, .counts = confusion_counts(prediction, target)});
    return counts;
  }

  NamedValues summary(const std::vector<MetricCounts>& totals) const final { return measures_.summary(totals); }

 protected:
  // Returns the sum over the targets that are not kIgnoredClass; the prediction is widened.
  virtual at::Tensor weighted_sum(const at::Tensor& prediction, const at::Tensor& target,
                                  const at::Tensor& weights) const = 0;

  // Returns the mean over them, of the prediction as the model returned it.
  virtual at::Tensor mean(const at::Tensor& prediction, const at::Tensor& target) const = 0;

  // Returns whether a target may have a share of each class, [B, C] float, as mixup makes it.
  virtual bool takes_shares() const { return false; }

 private:
  // Without weights it is LibTorch's own mean, equal to PyTorch's in every bit. `count` is undefined if all count.
  at::Tensor mean_loss(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& count) const {
    if (weights_.are_equal()) return mean(prediction, target);
    const auto values = widened(prediction);
    const auto sum = weighted_sum(values, target, weights_.as(values));
    return count.defined() ? sum / count.clamp_min(1) : sum / static_cast<double>(target.size(0));
  }

  static bool are_shares(const at::Tensor& prediction, const at::Tensor& target) {
    return prediction.dim() == 2 && target.sizes() == prediction.sizes() && target.is_floating_point();
  }

  // Returns one class for each sample: of shares the class with the largest.
  static at::Tensor hard(const at::Tensor& target) {
    return target.dim() == 2 && target.is_floating_point() ? target.argmax(1) : target;
  }

  const char* name_;
  ClassWeights weights_;
  ClassMetrics measures_;
};

class CrossEntropy final : public ClassObjective {
 public:
  explicit CrossEntropy(Options& options)
      : ClassObjective("cross_entropy", options),
        label_smoothing_(options.get<double>("label_smoothing", 0, "share of the target spread over all classes",
                                             {.min = 0, .max = 1})) {}

  at::Tensor scores(const at::Tensor& prediction) const override { return at::softmax(widened(prediction), 1); }

 private:
  at::Tensor weighted_sum(const at::Tensor& prediction, const at::Tensor& target,
                          const at::Tensor& weights) const override {
    return at::cross_entropy_loss(prediction, as_shares(target, prediction), weights, at::Reduction::Sum, kIgnoredClass,
                                  label_smoothing_);
  }

  at::Tensor mean(const at::Tensor& prediction, const at::Tensor& target) const override {
    if (!target.is_floating_point()) return cross_entropy(prediction, target, label_smoothing_);
    const auto values = widened(prediction);
    return at::cross_entropy_loss(values, as_shares(target, values), {}, at::Reduction::Mean, kIgnoredClass,
                                  label_smoothing_);
  }

  static at::Tensor as_shares(const at::Tensor& target, const at::Tensor& prediction) {
    return target.is_floating_point() ? target.to(prediction.scalar_type()) : target;
  }

  bool takes_shares() const override { return true; }

  double label_smoothing_;
};

class NegativeLogLikelihood final : public ClassObjective {
 public:
  explicit NegativeLogLikelihood(Options& options) : ClassObjective("nll", options) {}

  at::Tensor scores(const at::Tensor& prediction) const override { return at::exp(widened(prediction)); }

 private:
  at::Tensor weighted_sum(const at::Tensor& prediction, const at::Tensor& target,
                          const at::Tensor& weights) const override {
    return at::nll_loss_nd(prediction, target, weights, at::Reduction::Sum, kIgnoredClass);
  }

  at::Tensor mean(const at::Tensor& prediction, const at::Tensor& target) const override {
    return at::nll_loss_nd(widened(prediction), target, {}, at::Reduction::Mean, kIgnoredClass);
  }
};

// Returns the prediction, one value for each of the target, in the target's shape.
at::Tensor fitted(const char* name, const at::Tensor& prediction, const at::Tensor& target) {
  const bool column = prediction.dim() == 2 && prediction.size(1) == 1 && target.dim() == 1;
  const auto values = widened(column ? prediction.squeeze(1) : prediction);
  if (values.sizes() != target.sizes() || target.dim() < 1) {
    shapes_do_not_fit(name, "a prediction of the target's shape", prediction, target);
  }
  return values;
}

// Returns [N, L]: of [B] and [B, H, W] one label, of [B, L] and [B, L, H, W] L labels of each sample or pixel.
at::Tensor as_labels(const at::Tensor& values) {
  if (values.dim() == 2) return values;
  return values.dim() < 4 ? values.flatten().unsqueeze(1) : values.movedim(1, -1).flatten(0, -2);
}

// Predicts 0 or 1 for each sample, or for each of several labels of a sample; the logit's sign is the guess.
class BinaryCrossEntropy final : public Objective {
 public:
  explicit BinaryCrossEntropy(Options& options) : measures_("bce", ClassMetrics::Of::kLabels, options) {}

  void prepare(const DataSpec& data) override { measures_.set_names(data.class_names); }

  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    const auto logits = fitted("bce", prediction, target);
    const auto loss = at::binary_cross_entropy_with_logits(logits, target.to(logits.scalar_type()));
    const auto is_wrong = target.lt(0).logical_or(target.gt(1));
    if (!target.is_cpu())
      return at::where(is_wrong.any(), std::numeric_limits<double>::quiet_NaN(), loss);  // nothing waits for the device
    if (is_wrong.any().item<bool>())
      throw UserError(c10::str("bce expects targets of 0 to 1, found ",
                               target.masked_select(is_wrong)[0].item<double>(),
                               ": it knows no label that does not count"));
    return loss;
  }

  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    return measures_.sums(as_two_classes(prediction, target), target.flatten().to(at::kLong), {});
  }

  std::vector<MetricCounts> counts(const at::Tensor& prediction, const at::Tensor& target) const override {
    auto counts = measures_.counts(*this, as_labels(fitted("bce", prediction.detach(), target)), as_labels(target));
    if (measures_.wants_confusion()) {
      const auto truth = target.flatten().to(at::kLong);
      counts.push_back({.name = kConfusion, .counts = confusion_counts(as_two_classes(prediction, target), truth)});
    }
    return counts;
  }

  NamedValues summary(const std::vector<MetricCounts>& totals) const override { return measures_.summary(totals); }

  at::Tensor scores(const at::Tensor& prediction) const override { return at::sigmoid(widened(prediction)); }

 private:
  static at::Tensor as_two_classes(const at::Tensor& prediction, const at::Tensor& target) {
    const auto logits = fitted("bce", prediction.detach(), target).flatten();
    return at::stack({at::zeros_like(logits), logits}, 1);
  }

  ClassMetrics measures_;
};

class ValueObjective : public Objective {
 public:
  ValueObjective(const char* name, Options& options) : name_(name), measures_(name, options) {}

  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const final {
    const auto values = fitted(name_, prediction, target);
    return value_loss(values, target.to(values.scalar_type()));
  }

  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const final {
    return measures_.sums(fitted(name_, prediction.detach(), target), target);
  }

 protected:
  virtual at::Tensor value_loss(const at::Tensor& prediction, const at::Tensor& target) const = 0;

 private:
  const char* name_;
  ValueMetrics measures_;
};

class MeanSquaredError final : public ValueObjective {
 public:
  explicit MeanSquaredError(Options& options) : ValueObjective("mse", options) {}

 private:
  at::Tensor value_loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return at::mse_loss(prediction, target);
  }
};

class MeanAbsoluteError final : public ValueObjective {
 public:
  explicit MeanAbsoluteError(Options& options) : ValueObjective("l1", options) {}

 private:
  at::Tensor value_loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return at::l1_loss(prediction, target);
  }
};

constexpr std::array kObjectives{"cross_entropy", "nll", "bce", "mse", "l1"};

std::string objectives_text() {
  std::string text;
  for (const auto* name : kObjectives) text += (text.empty() ? "" : " | ") + std::string(name);
  return text;
}

}  // namespace

std::unique_ptr<Objective> make_objective(const std::string& name, Options& options) {
  if (name == "cross_entropy") return std::make_unique<CrossEntropy>(options);
  if (name == "nll") return std::make_unique<NegativeLogLikelihood>(options);
  if (name == "bce") return std::make_unique<BinaryCrossEntropy>(options);
  if (name == "mse") return std::make_unique<MeanSquaredError>(options);
  if (name == "l1") return std::make_unique<MeanAbsoluteError>(options);
  throw std::invalid_argument("there is no built-in objective " + name);
}

std::unique_ptr<Objective> make_built_in_objective(const std::string& name, const Value& values,
                                                   const std::string& path) {
  Options options(values, path);
  auto objective = make_objective(name, options);
  std::string problems;
  for (const auto& problem : options.problems()) problems += (problems.empty() ? "" : "\n") + problem;
  if (!problems.empty()) throw UserError(problems);
  return objective;
}

bool is_built_in_objective(const std::string& name) {
  return std::ranges::find(kObjectives, name) != kObjectives.end();
}

namespace {

// Throws UserError if there is no plugin of this name; a path is checked when it is loaded.
void require_objective(const PluginChoice& choice, const PluginHost& plugins) {
  if (choice.plugin.ends_with(".so") || choice.plugin.find('/') != std::string::npos) return;
  std::vector<std::string> names{kObjectives.begin(), kObjectives.end()};
  auto text = "expected " + objectives_text();
  for (const auto& plugin : plugins.known()) {
    if (plugin.kind != "objective") continue;
    if (plugin.name == choice.plugin) return;
    names.push_back(plugin.name);
    text += " | " + plugin.name;
  }
  const auto near = nearest_name(choice.plugin, names);
  throw UserError(problem_line(choice.origin, "objective.name",
                               text + " or another objective plugin, found \"" + choice.plugin + "\"" +
                                   (near.empty() ? "" : "; did you mean " + near + "?")));
}

// Takes the option `metrics` for what a built-in objective measures, unless the plugin has one of this name.
std::shared_ptr<Objective> make_plugin(const PluginChoice& choice, const PluginHost& plugins,
                                       std::vector<std::string>* paths) {
  const auto* metrics = choice.options.find("metrics");
  const auto own = metrics ? plugins.describe(choice.plugin, "objective").options : std::vector<OptionDeclaration>();
  if (!metrics || std::ranges::find(own, "metrics", &OptionDeclaration::name) != own.end())
    return plugins.make_objective(choice, paths);
  auto without = choice;
  without.options.erase("metrics");
  return std::make_shared<MeasuredObjective>(plugins.make_objective(without, paths), *metrics);
}

}  // namespace

std::shared_ptr<Objective> make_objective(const PluginChoice& choice, const PluginHost& plugins,
                                          std::vector<std::string>* paths) {
  if (!is_built_in_objective(choice.plugin)) {
    require_objective(choice, plugins);
    return make_plugin(choice, plugins, paths);
  }
  return make_built_in_objective(choice.plugin, choice.options, choice.path);
}

std::vector<SectionHelp> objective_kinds() {
  std::vector<SectionHelp> kinds;
  for (const std::string name : kObjectives) {
    Options options(Value(), "objective");
    make_objective(name, options);
    kinds.push_back({.name = name, .help = "", .keys = options.declared()});
  }
  return kinds;
}

std::vector<OptionDeclaration> objective_keys() {
  std::vector<OptionDeclaration> keys{
      {.name = "name", .type = objectives_text(), .fallback = kObjectives.front(), .help = "the loss"}};
  for (const auto& [name, help, declared] : objective_kinds()) {
    for (const auto& key : declared) {
      const auto known = std::ranges::find_if(
          keys, [&](const auto& other) { return other.name == key.name && other.help.ends_with(": " + key.help); });
      if (known != keys.end()) {
        known->help.insert(known->help.find(": "), ", " + name);
      } else {
        keys.push_back(key);
        keys.back().help = name + ": " + key.help;
      }
    }
  }
  return keys;
}

MetricNames metric_names(const std::string& name, const Objective& objective) {
  const bool classes = name == "cross_entropy" || name == "nll";
  const auto prediction = classes ? at::zeros({1, 1}) : at::zeros({1}),
             target = at::zeros({1}, classes ? at::kLong : at::kFloat);
  MetricNames names{.means = {"loss"}};
  for (const auto& metric : objective.metrics(prediction, target)) names.means.push_back(metric.name);
  CountSums counts;
  counts.add(objective.counts(prediction, target));
  for (const auto& [metric, value] : objective.summary(counts.sums())) {
    const auto slash = metric.find('/');
    names.of_evaluations.push_back(slash == metric.npos ? metric : metric.substr(0, slash) + kEachClass);
  }
  return names;
}

namespace {

// Throws PluginMistake unless there is a number for each class of a sample, or of each of its symbols or pixels.
void require_number_for_each_class(const char* hook, const at::Tensor& prediction, const at::Tensor& target,
                                   int64_t classes) {
  const bool several = target.dim() > 1 && target.size(1) > 1 && target.scalar_type() == at::kLong;
  const bool fits = several ? are_of_parts(prediction, target) : prediction.dim() == 2;
  if (fits && prediction.size(prediction.dim() == 3 ? 2 : 1) == classes) return;
  auto expected = several ? target.sizes().vec() : std::vector<int64_t>{target.dim() > 0 ? target.size(0) : 0};
  expected.insert(several && target.dim() > 2 ? expected.begin() + 1 : expected.end(), classes);
  auto problem = c10::str(hook, "() gives ", prediction.sizes(), ": expected ", at::IntArrayRef(expected),
                          ", a number for each of the dataset's classes");
  if (fits)
    problem += c10::str(". Give its last layer ", classes,
                        " outputs; a network from Python gets them where it is "
                        "exported, most often by --set num_classes=",
                        classes);
  throw PluginMistake({"model", problem});
}

const char* predicting_hook(const Model& model) { return model.has_default_predict() ? "forward" : "predict"; }

// Returns the loss; LibTorch's own errors ("Target 7 is out of bounds") do not say which tensors they are about.
at::Tensor loss_or_shapes(const Objective& objective, const at::Tensor& prediction, const at::Tensor& target) try {
  return objective.loss(prediction, target);
} catch (const c10::IndexError& error) {
  throw std::runtime_error(c10::str(error.what_without_backtrace(), " The model gave it a prediction of ",
                                    prediction.sizes(), " for targets of ", target.sizes()));
}

}  // namespace

at::Tensor WatchedObjective::loss(const at::Tensor& prediction, const at::Tensor& target) const {
  was_asked_.store(true, std::memory_order_relaxed);
  if (classes_ > 0) require_number_for_each_class(hook_, prediction, target, classes_);
  return in_plugin({"objective", "loss"}, [&] { return loss_or_shapes(*objective_, prediction, target); });
}

at::Tensor WatchedObjective::counted(const at::Tensor& target) const {
  return in_plugin({"objective", "counted"}, [&] { return objective_->counted(target); });
}

std::vector<MetricSum> WatchedObjective::metrics(const at::Tensor& prediction, const at::Tensor& target) const {
  return in_plugin({"objective", "metrics"}, [&] { return objective_->metrics(prediction, target); });
}

std::vector<MetricCounts> WatchedObjective::counts(const at::Tensor& prediction, const at::Tensor& target) const {
  was_asked_for_counts_.store(true, std::memory_order_relaxed);
  return in_plugin({"objective", "counts"}, [&] { return objective_->counts(prediction, target); });
}

std::vector<std::pair<std::string, double>> WatchedObjective::summary(const std::vector<MetricCounts>& totals) const {
  return in_plugin({"objective", "summary"}, [&] { return objective_->summary(totals); });
}

at::Tensor WatchedObjective::scores(const at::Tensor& prediction) const {
  return in_plugin({"objective", "scores"}, [&] { return objective_->scores(prediction); });
}

std::unique_ptr<WatchedObjective> watched_objective(const PluginChoice& choice, const PluginHost& plugins,
                                                    const Model& model, const DataSpec& data) {
  const auto& name = choice.plugin;
  const bool by_classes = model.has_default_step() && (name == "cross_entropy" || name == "nll");
  auto objective = make_objective(choice, plugins);
  in_plugin({"objective", "prepare"}, [&] { objective->prepare(data); });
  return std::make_unique<WatchedObjective>(std::move(objective), by_classes ? data.classes : 0,
                                            predicting_hook(model));
}

at::Tensor call_predict(Model& model, const Batch& batch) {
  return in_plugin({"model", predicting_hook(model)}, [&] { return model.predict(batch); });
}

Step call_step(Model& model, const Batch& batch, const Objective& objective) {
  auto step = in_plugin(step_hook(model), [&] { return model.step(batch, objective); });
  step.loss = zero_if_none_counts(step.loss, step.counted);
  return step;
}

CurrentOp step_hook(const Model& model) {
  return {"model", model.has_default_step() ? predicting_hook(model) : "step"};
}

}  // namespace ddprun

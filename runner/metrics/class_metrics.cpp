// SPDX-License-Identifier: MIT
#include "metrics/class_metrics.h"

#include "base/log.h"
#include "metrics/value_metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace ddprun {

// One value for each class or label, of their counts or of their ranking, and what becomes of them.
struct ClassMetric {
  enum class Quantity { kPrecision, kRecall, kF1, kIou, kAuroc, kAveragePrecision, kMcc, kBalancedAccuracy };
  enum class Form { kMean, kOfAll, kEach };  // macro, micro, per class

  std::string_view name;
  Quantity quantity;
  Form form;

  bool is_ranking() const { return quantity == Quantity::kAuroc || quantity == Quantity::kAveragePrecision; }
};

namespace {

using Quantity = ClassMetric::Quantity;
using Form = ClassMetric::Form;

constexpr auto kMetrics = std::to_array<ClassMetric>({
    {"precision", Quantity::kPrecision, Form::kMean},
    {"precision_micro", Quantity::kPrecision, Form::kOfAll},
    {"precision_per_class", Quantity::kPrecision, Form::kEach},
    {"recall", Quantity::kRecall, Form::kMean},
    {"recall_micro", Quantity::kRecall, Form::kOfAll},
    {"recall_per_class", Quantity::kRecall, Form::kEach},
    {"f1", Quantity::kF1, Form::kMean},
    {"f1_micro", Quantity::kF1, Form::kOfAll},
    {"f1_per_class", Quantity::kF1, Form::kEach},
    {"mean_iou", Quantity::kIou, Form::kMean},
    {"iou_per_class", Quantity::kIou, Form::kEach},
    {"balanced_accuracy", Quantity::kBalancedAccuracy, Form::kMean},
    {"mcc", Quantity::kMcc, Form::kOfAll},
    {"auroc", Quantity::kAuroc, Form::kMean},
    {"auroc_per_class", Quantity::kAuroc, Form::kEach},
    {"average_precision", Quantity::kAveragePrecision, Form::kMean},
    {"average_precision_per_class", Quantity::kAveragePrecision, Form::kEach},
});

constexpr std::string_view kPerClass = "_per_class";
constexpr auto kNan = std::numeric_limits<double>::quiet_NaN();
constexpr auto kClassCounts = "class_counts", kScores = "scores", kNanCount = "nan_predictions";

std::vector<std::string> known_names() {
  std::vector<std::string> names{"accuracy", "top5", "confusion"};
  for (const auto& metric : kMetrics) names.emplace_back(metric.name);
  return names;
}

// Returns the K of "topK"; 0 for another name.
int64_t top_k(const std::string& name) {
  int64_t k = 0;
  if (!name.starts_with("top")) return 0;
  const auto [stop, error] = std::from_chars(name.data() + 3, name.data() + name.size(), k);
  return error == std::errc() && stop == name.data() + name.size() && k >= 1 ? k : 0;
}

double quotient(double part, double whole) { return whole == 0 ? 0 : part / whole; }

double value_of(Quantity quantity, double hits, double guess, double truth) {
  switch (quantity) {
    case Quantity::kPrecision: return quotient(hits, guess);
    case Quantity::kRecall: return quotient(hits, truth);
    case Quantity::kF1: return quotient(2 * hits, guess + truth);
    case Quantity::kIou: return quotient(hits, guess + truth - hits);
    default: return kNan;
  }
}

double sum_of(const std::vector<int64_t>& values) {
  double sum = 0;
  for (const auto value : values) sum += static_cast<double>(value);
  return sum;
}

// Leaves out those that are NaN.
double mean_of(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const auto value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return quotient(sum, count);
}

// Matthews' coefficient for several classes, as R_K in Gorodkin, "Comparing two K-category assignments by a K-category
// correlation coefficient" (2004). Labels are taken as samples of two classes.
double mcc(const ClassCounts& counts) {
  std::vector<double> truth(counts.truth.begin(), counts.truth.end()), guess(counts.guess.begin(), counts.guess.end());
  double all = static_cast<double>(counts.samples), hits = sum_of(counts.hits);
  if (counts.labels) {
    all *= static_cast<double>(truth.size());
    const double with = sum_of(counts.truth), guessed = sum_of(counts.guess);
    truth = {all - with, with};
    guess = {all - guessed, guessed};
    hits += all - with - guessed + hits;
  }
  double both = 0, truth_squares = 0, guess_squares = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    both += truth[i] * guess[i];
    truth_squares += truth[i] * truth[i];
    guess_squares += guess[i] * guess[i];
  }
  return quotient(hits * all - both, std::sqrt(all * all - truth_squares) * std::sqrt(all * all - guess_squares));
}

// Returns the recall of each class that the targets have; of labels the mean recall of having it and having it not.
std::vector<double> balanced_recalls(const ClassCounts& counts) {
  std::vector<double> recalls;
  for (size_t i = 0; i < counts.truth.size(); ++i) {
    const auto truth = static_cast<double>(counts.truth[i]), hits = static_cast<double>(counts.hits[i]);
    const auto others = static_cast<double>(counts.samples) - truth;
    const double rejected = others - static_cast<double>(counts.guess[i]) + hits;
    const double recall = truth > 0 ? hits / truth : kNan;
    recalls.push_back(counts.labels ? mean_of({recall, others > 0 ? rejected / others : kNan}) : recall);
  }
  return recalls;
}

std::vector<double> each_of(Quantity quantity, const ClassCounts& counts) {
  if (quantity == Quantity::kBalancedAccuracy) return balanced_recalls(counts);
  std::vector<double> values;
  for (size_t i = 0; i < counts.truth.size(); ++i) {
    values.push_back(value_of(quantity, static_cast<double>(counts.hits[i]), static_cast<double>(counts.guess[i]),
                              static_cast<double>(counts.truth[i])));
  }
  return values;
}

double of_all(Quantity quantity, const ClassCounts& counts) {
  if (quantity == Quantity::kMcc) return mcc(counts);
  return value_of(quantity, sum_of(counts.hits), sum_of(counts.guess), sum_of(counts.truth));
}

double mean(Quantity quantity, const ClassCounts& counts) {
  auto values = each_of(quantity, counts);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!counts.labels && counts.truth[i] == 0 && counts.guess[i] == 0) values[i] = kNan;
  }
  return mean_of(values);
}

// A class that no sample has adds 0 to the mean of auroc and nothing to that of average precision; a label adds 0 to
// both.
std::vector<double> each_of(Quantity quantity, const std::vector<Ranking>& rankings, bool labels) {
  std::vector<double> values;
  for (const auto& ranking : rankings) {
    const bool nothing = quantity == Quantity::kAveragePrecision && !labels && ranking.positives == 0;
    values.push_back(nothing ? kNan : quantity == Quantity::kAuroc ? ranking.auroc : ranking.average_precision);
  }
  return values;
}

const MetricCounts& find(const std::vector<MetricCounts>& totals, const char* name) {
  const auto found = std::ranges::find(totals, name, &MetricCounts::name);
  TORCH_CHECK(found != totals.end(), "no counts are called ", name);
  return *found;
}

ClassCounts class_counts(const at::Tensor& total, bool labels) {
  const auto row = [&](int64_t index) {
    const auto values = total[index].contiguous();
    return std::vector<int64_t>(values.const_data_ptr<int64_t>(), values.const_data_ptr<int64_t>() + values.numel());
  };
  return {.truth = row(0), .guess = row(1), .hits = row(2), .samples = row(3).front(), .labels = labels};
}

// Returns [4, classes] int64: the rows are those of ClassCounts.
at::Tensor counts_of_classes(const at::Tensor& guess, const at::Tensor& target, int64_t classes) {
  const auto counted = target.ne(kIgnoredClass);
  auto counts = at::zeros({4, classes}, target.options());
  const auto count = [&](int64_t row, const at::Tensor& index, const at::Tensor& counts_here) {
    counts[row].index_add_(0, index, counts_here.to(at::kLong));
  };
  const auto truth = at::where(counted, target, 0);
  count(0, truth, counted);
  count(1, guess, counted);
  count(2, truth, counted.logical_and(guess.eq(target)));
  counts[3].fill_(counted.sum());
  return counts;
}

at::Tensor counts_of_labels(const at::Tensor& guess, const at::Tensor& truth) {
  const auto samples = at::full({truth.size(1)}, truth.size(0), truth.options().dtype(at::kLong));
  return at::stack({truth.sum(0), guess.sum(0), truth.logical_and(guess).sum(0), samples});
}

}  // namespace

ClassMetrics::ClassMetrics(const char* objective, Of of, Options& options) : of_(of) {
  constexpr auto kHelp =
      "accuracy, top5 (or any number), confusion; precision, recall, f1, each also with _micro or _per_class; "
      "mean_iou, "
      "iou_per_class; balanced_accuracy, mcc; auroc, average_precision, each also with _per_class";
  for (const auto& name : metric_choices(options, {"accuracy"}, kHelp)) {
    const auto metric = std::ranges::find(kMetrics, name, &ClassMetric::name);
    if (name == "accuracy") {
      accuracy_ = true;
    } else if (name == "confusion") {
      confusion_ = true;
    } else if (const auto k = top_k(name); k > 0) {
      top_.push_back(k);
    } else if (metric != kMetrics.end()) {
      wanted_.push_back(&*metric);
    } else {
      reject_metric(options, objective, name, known_names());
    }
  }
}

bool is_class_metric(const std::string& name) {
  const auto known = known_names();
  return top_k(name) > 0 || std::ranges::find(known, name) != known.end();
}

std::vector<MetricSum> ClassMetrics::sums(const at::Tensor& scores, const at::Tensor& target,
                                          const at::Tensor& counted) const {
  std::vector<MetricSum> sums;
  const auto add = [&](std::string name, const at::Tensor& sum) {
    sums.push_back({.name = std::move(name), .sum = sum, .count = target.size(0), .counted = counted});
  };
  if (accuracy_) add("accuracy", count_correct(scores, target));
  for (const auto k : top_) {
    const auto [values, best] = scores.topk(std::min(k, scores.size(1)), 1);  // a NaN comes first
    const auto greatest = values.select(1, 0);
    add("top" + std::to_string(k), best.eq(target.unsqueeze(1)).any(1).logical_and(greatest.eq(greatest)).sum());
  }
  return sums;
}

std::vector<MetricCounts> ClassMetrics::counts(const Objective& objective, const at::Tensor& prediction,
                                               const at::Tensor& target) const {
  const bool labels = of_ == Of::kLabels;
  const auto truth = labels ? target.to(at::kLong).eq(1) : target;
  const auto without_order = prediction.isnan().any(1);
  const auto count = labels ? at::ones_like(without_order) : truth.ne(kIgnoredClass);
  std::vector<MetricCounts> counts{
      {.name = kNanCount, .counts = at::stack({without_order.logical_and(count).sum(), count.sum()})}};
  if (wanted_.empty()) return counts;
  counts.push_back({.name = kClassCounts,
                    .counts = labels ? counts_of_labels(prediction.gt(0), truth)
                                     : counts_of_classes(prediction.argmax(1), truth, prediction.size(1))});
  if (std::ranges::none_of(wanted_, &ClassMetric::is_ranking)) return counts;
  auto scores = objective.scores(prediction);
  if (labels) {
    counts.push_back(score_counts(scores, truth));
  } else {
    const auto counted = truth.ne(kIgnoredClass).nonzero().squeeze(1);
    const auto classes = at::arange(scores.size(1), truth.options());
    counts.push_back(
        score_counts(scores.index_select(0, counted), truth.index_select(0, counted).unsqueeze(1).eq(classes)));
  }
  counts.back().name = kScores;
  return counts;
}

NamedValues ClassMetrics::summary(const std::vector<MetricCounts>& totals) const {
  const auto nan_count = find(totals, kNanCount).counts.cpu();
  const auto without_order = nan_count[0].item<int64_t>();
  warn_of_nan(without_order, nan_count[1].item<int64_t>());
  if (wanted_.empty()) return {};
  const bool labels = of_ == Of::kLabels;
  const auto counts = class_counts(find(totals, kClassCounts).counts, labels);
  const auto names = names_of(counts.truth.size());
  std::vector<Ranking> ranked;
  if (std::ranges::any_of(wanted_, &ClassMetric::is_ranking))
    ranked = rankings(find(totals, kScores), static_cast<int64_t>(names.size()));
  warn_of_errors(ranked);
  NamedValues values;
  for (const auto* metric : wanted_) {
    const auto each = metric->is_ranking() ? each_of(metric->quantity, ranked, labels) : std::vector<double>();
    const auto value = [&](double found) { return without_order > 0 ? kNan : found; };
    if (metric->form == Form::kEach) {
      const auto base = std::string(metric->name.substr(0, metric->name.size() - kPerClass.size()));
      const auto found = metric->is_ranking() ? each : each_of(metric->quantity, counts);
      for (size_t i = 0; i < names.size(); ++i) values.emplace_back(base + "/" + names[i], value(found[i]));
    } else if (metric->is_ranking()) {
      values.emplace_back(metric->name, value(mean_of(each)));
    } else {
      const bool micro = metric->form == Form::kOfAll;
      values.emplace_back(metric->name,
                          value(micro ? of_all(metric->quantity, counts) : mean(metric->quantity, counts)));
    }
  }
  return values;
}

// Of one label the name is that of the class 1, the second of two.
std::vector<std::string> ClassMetrics::names_of(size_t classes) const {
  if (names_.size() == classes) return names_;
  if (classes == 1) return {names_.size() == 2 ? names_[1] : "1"};
  std::vector<std::string> numbers;
  for (size_t i = 0; i < classes; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

// Says once that predictions are NaN, and what becomes of them.
void ClassMetrics::warn_of_nan(int64_t predictions, int64_t all) const {
  if (predictions == 0 || warned_.exchange(true)) return;
  auto text =
      log::text("objective.metrics: the model's predictions are NaN for ", predictions, " of ", all, " samples");
  if (accuracy_ || !top_.empty()) text += ", which count as wrong";
  if (confusion_) text += ", and which the confusion matrix leaves out";
  if (!wanted_.empty())
    text += log::text(", so that ", wanted_.front()->name,
                      wanted_.size() > 1 ? " and the other metrics of classes have" : " has", " no value");
  log::warn(text);
}

// Says once how exact the metrics of rankings are, if they are not.
void ClassMetrics::warn_of_errors(const std::vector<Ranking>& rankings) const {
  double auroc = 0, average_precision = 0;
  for (const auto& ranking : rankings) {
    auroc = std::max(auroc, ranking.auroc_error);
    average_precision = std::max(average_precision, ranking.average_precision_error);
  }
  if (auroc + average_precision == 0 || has_warned_of_errors_.exchange(true)) return;
  log::info(
      log::text("objective.metrics: there are more than 4,194,304 different scores, of which near ones are taken "
                "as equal: auroc is off by less than ",
                auroc, ", average_precision by less than ", average_precision));
}

at::Tensor confusion_counts(const at::Tensor& prediction, const at::Tensor& truth) {
  const auto classes = prediction.size(1);
  const auto [greatest, guess] = prediction.max(1);
  const auto counted = truth.ne(kIgnoredClass).logical_and(greatest.eq(greatest));
  auto counts = at::zeros({classes * classes}, truth.options());
  counts.index_add_(0, at::where(counted, truth * classes + guess, 0), counted.to(truth.scalar_type()));
  return counts.view({classes, classes});
}

}  // namespace ddprun

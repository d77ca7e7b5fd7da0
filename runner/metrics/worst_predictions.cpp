// SPDX-License-Identifier: MIT
#include "metrics/worst_predictions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostValues = 16;  // of a sample without classes

std::vector<double> some_values(const at::Tensor& values) {
  const auto wide = values.flatten().slice(0, 0, kMostValues).to(at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

ordered_json class_row(const PredictedBatch& batch, int64_t row) {
  const auto scores = batch.scores[row].to(at::kDouble).contiguous();
  const auto* first = scores.const_data_ptr<double>();
  const auto guess = batch.guess[row].item<int64_t>(), truth = batch.has_truth ? batch.truth[row].item<int64_t>() : -1;
  const auto sure = first[guess];
  const bool is_wrong = batch.has_truth && guess != truth;
  return {{"truth", truth},
          {"guess", guess},
          {"scores", std::vector<double>(first, first + scores.numel())},
          {"rank", is_wrong ? 2 + sure : 1 - sure}};
}

ordered_json value_row(const PredictedBatch& batch, int64_t row) {
  const auto scores = batch.scores[row].to(at::kDouble);
  ordered_json shown{{"truth", ordered_json::array()}, {"scores", some_values(scores)}, {"rank", 0}};
  if (!batch.has_truth) return shown;
  const auto truth = batch.truth[row].to(at::kDouble);
  if (truth.sizes() != scores.sizes()) return shown;  // a model with a loss of its own
  const bool pixels = batch.output.defined() && batch.output.scalar_type() == at::kByte;
  const auto wrong = pixels ? scores.ne(truth).to(at::kDouble).mean() : scores.sub(truth).square().mean();
  shown["truth"] = some_values(truth);
  shown["rank"] = shown["error"] = wrong.item<double>();
  return shown;
}

}  // namespace

void WorstPredictions::add(const PredictedBatch& batch) {
  const bool classes = batch.guess.defined();
  if (classes) classes_ = batch.scores.size(1);
  for (int64_t row = 0; row < batch.index.size(0); ++row) {
    ordered_json shown{{"id", batch.index[row].item<int64_t>()}};
    if (!batch.files.empty()) shown["file"] = batch.files[static_cast<size_t>(row)];
    shown.update(classes ? class_row(batch, row) : value_row(batch, row));
    rows_.push_back(std::move(shown));
  }
  if (rows_.size() > 4 * most_) keep_worst();
}

// Those that are equally bad stay in the order of their numbers, whichever rank had them.
void WorstPredictions::keep_worst() {
  const auto rank = [](const ordered_json& row) {  // what is not finite is the worst, and null in JSON
    const auto value = row["rank"].is_number() ? row["rank"].get<double>() : std::nan("");
    return std::isfinite(value) ? value : std::numeric_limits<double>::max();
  };
  std::ranges::sort(rows_, [&](const ordered_json& one, const ordered_json& other) {
    return std::pair(-rank(one), one["id"].get<int64_t>()) < std::pair(-rank(other), other["id"].get<int64_t>());
  });
  if (rows_.size() > most_) rows_.resize(most_);
}

void WorstPredictions::merge(const std::string& text) {
  const auto other = ordered_json::parse(text);
  classes_ = std::max(classes_, other["classes"].get<int64_t>());
  for (const auto& row : other["rows"]) rows_.push_back(row);
}

std::string WorstPredictions::text() const {
  return ordered_json{{"classes", classes_}, {"rows", rows_}}.dump(-1, ' ', false,
                                                                   ordered_json::error_handler_t::replace);
}

ordered_json WorstPredictions::table() const {
  auto sorted = *this;
  sorted.keep_worst();
  auto rows = ordered_json::array();
  for (auto& row : sorted.rows_) {
    row.erase("rank");
    rows.push_back(std::move(row));
  }
  return {{"classes", classes_ > 0 ? class_names(spec_, classes_) : std::vector<std::string>()}, {"rows", rows}};
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "metrics/predictions.h"

#include "base/log.h"
#include "csv_cell.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ddprun {
namespace {

std::vector<double> row_of(const at::Tensor& values, int64_t row) {
  const auto wide = values[row].to(at::kDouble).contiguous();
  const auto* first = wide.const_data_ptr<double>();
  return {first, first + wide.numel()};
}

// Returns whether the model outputs an image, or the like, for each input.
bool is_like_input(const at::Tensor& prediction, const Batch& batch) {
  return prediction.dim() > 2 && prediction.sizes() == batch.input.sizes();
}

// Returns the output to show. Such a prediction is for the objective to read if its target has that shape too, a
// reconstruction; otherwise the model has its own loss, and its output is shown.
at::Tensor readable_output(const at::Tensor& prediction, const Batch& batch, const Objective& objective) {
  const auto values = prediction.sizes() == batch.target.sizes() ? objective.scores(prediction) : prediction;
  return values.to(at::kCPU).to(at::kFloat);
}

at::Tensor as_rows(const at::Tensor& values) { return values.dim() == 1 ? values.unsqueeze(1) : values.flatten(1); }

PredictedBatch of_pixels(const at::Tensor& prediction, const at::Tensor& truth, const at::Tensor& index) {
  const auto guess = prediction.argmax(1).to(at::kCPU);
  const auto grey = guess * 255 / std::max<int64_t>(1, prediction.size(1) - 1);
  const bool is_picture = prediction.dim() == 4;  // and no volume
  return {.index = index,
          .scores = guess.flatten(1).to(at::kFloat),
          .guess = {},
          .truth = truth.flatten(1),
          .output = is_picture ? grey.unsqueeze(1).to(at::kByte) : at::Tensor()};
}

at::Tensor images_of_outputs(const PredictedBatch& batch, const Dataset& dataset) {
  if (!batch.output.defined() || batch.output.scalar_type() == at::kByte) return batch.output;
  return in_plugin({"dataset", "to_image"}, [&] { return dataset.to_image(batch.output); });
}

}  // namespace

ShownImage image_of(const at::Tensor& images, int64_t row) {
  if (!images.defined()) return {};
  const auto dense = images[row].contiguous();
  const auto* first = dense.const_data_ptr<uint8_t>();
  return {.channels = dense.size(0),
          .height = dense.size(1),
          .width = dense.size(2),
          .bytes = {first, first + dense.numel()}};
}

std::vector<std::string> class_names(const DataSpec& spec, int64_t classes) {
  if (static_cast<int64_t>(spec.class_names.size()) == classes) return spec.class_names;
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

ConfusionTable confusion_table(const at::Tensor& counts, const DataSpec& spec, const std::string& split, int64_t epoch,
                               int64_t step) {
  const auto dense = counts.cpu().contiguous();
  const auto* first = dense.const_data_ptr<int64_t>();
  return {.split = split,
          .epoch = epoch,
          .step = step,
          .class_names = class_names(spec, counts.size(0)),
          .counts = {first, first + dense.numel()}};
}

PredictedBatch predict(Model& model, const Batch& batch, const Objective& objective) {
  auto prediction = call_predict(model, batch);
  auto truth = batch.target.to(at::kCPU);
  if (prediction.dim() == 3 && are_of_parts(prediction, truth) && truth.size(1) > 0) {
    prediction = prediction.select(1, -1);
    truth = truth.select(1, -1);
  }
  if (are_of_parts(prediction, truth)) return of_pixels(prediction, truth, batch.index);
  if (is_like_input(prediction, batch)) {
    const auto output = readable_output(prediction, batch, objective);
    return {.index = batch.index, .scores = as_rows(output), .guess = {}, .truth = as_rows(truth), .output = output};
  }
  const auto scores = objective.scores(prediction).to(at::kCPU).to(at::kFloat);
  if (scores.dim() < 1 || scores.size(0) != batch.size()) {
    throw UserError(log::text("model: it predicts ", scores.sizes(), " for ", batch.size(),
                              " samples; predictions need a row for each"));
  }
  const bool classes = scores.dim() == 2 && scores.size(1) > 1 && truth.dim() == 1 && truth.scalar_type() == at::kLong;
  // Takes the class from the prediction itself, as accuracy does: probabilities may round to equal values.
  if (classes) {
    return {.index = batch.index, .scores = scores, .guess = prediction.argmax(1).to(at::kCPU), .truth = truth};
  }
  return {.index = batch.index, .scores = as_rows(scores), .guess = {}, .truth = as_rows(truth)};
}

void append_rows(PredictionTable& table, const PredictedBatch& batch, const at::Tensor& input, const Dataset& dataset) {
  const auto images = in_plugin({"dataset", "to_image"}, [&] { return dataset.to_image(input.to(at::kCPU)); });
  const auto outputs = images.defined() ? images_of_outputs(batch, dataset) : at::Tensor();
  if (batch.guess.defined()) table.class_names = class_names(dataset.spec(), batch.scores.size(1));
  for (int64_t row = 0; row < batch.index.size(0); ++row) {
    Prediction prediction{
        .id = batch.index[row].item<int64_t>(), .image = image_of(images, row), .output = image_of(outputs, row)};
    if (!outputs.defined()) prediction.scores = row_of(batch.scores, row);
    if (batch.guess.defined()) {
      prediction.guess = batch.guess[row].item<int64_t>();
      prediction.truth = batch.truth[row].item<int64_t>();
    } else if (!outputs.defined() ||
               batch.truth.sizes() != batch.scores.sizes()) {  // an image's pixels are no use in a table
      prediction.true_values = row_of(batch.truth, row);
    }
    table.rows.push_back(std::move(prediction));
  }
}

namespace {

// Appends the shortest texts that read back as the same numbers.
void append_numbers(std::string& line, const at::Tensor& values) {
  const auto row = values.to(at::kFloat).contiguous();
  const auto* number = row.const_data_ptr<float>();
  std::array<char, 32> text{};
  for (int64_t i = 0; i < row.numel(); ++i) {
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number[i]).ptr;
    line.append(",").append(text.data(), end);
  }
}

std::string numbered(const char* name, int64_t count) {
  std::string heads;
  for (int64_t i = 0; i < count; ++i) heads += std::string(",") + name + "_" + std::to_string(i);
  return heads;
}

}  // namespace

std::string prediction_head(const PredictedBatch& batch, const DataSpec& spec) {
  std::string line = batch.files.empty() ? "index" : "index,file";
  if (!batch.guess.defined()) {
    if (batch.has_truth) line += numbered("truth", batch.truth.size(1));
    return line + numbered("prediction", batch.scores.size(1)) + "\n";
  }
  line += batch.has_truth ? ",truth,guess" : ",guess";
  for (const auto& name : class_names(spec, batch.scores.size(1))) line += "," + csv_cell("score_" + name);
  return line + "\n";
}

std::string prediction_lines(const PredictedBatch& batch, const DataSpec& spec) {
  const bool classes = batch.guess.defined();
  const auto names = classes ? class_names(spec, batch.scores.size(1)) : std::vector<std::string>();
  const auto name = [&](const at::Tensor& index) {
    const auto number = index.item<int64_t>();
    const bool known = number >= 0 && number < static_cast<int64_t>(names.size());  // not if the truth is unknown
    return known ? csv_cell(names[static_cast<size_t>(number)]) : std::to_string(number);
  };
  std::string lines;
  for (int64_t row = 0; row < batch.index.size(0); ++row) {
    lines += std::to_string(batch.index[row].item<int64_t>());
    if (!batch.files.empty()) lines += "," + csv_cell(batch.files[static_cast<size_t>(row)]);
    if (batch.has_truth && classes) lines += "," + name(batch.truth[row]);
    if (batch.has_truth && !classes) append_numbers(lines, batch.truth[row]);
    if (classes) lines += "," + name(batch.guess[row]);
    append_numbers(lines, batch.scores[row]);
    lines += "\n";
  }
  return lines;
}

}  // namespace ddprun

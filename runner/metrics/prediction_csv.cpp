// SPDX-License-Identifier: MIT
#include "metrics/prediction_csv.h"

#include "csv_cell.h"

#include <ATen/ATen.h>

#include <array>
#include <charconv>

namespace ddprun {
namespace {

// The shortest text that reads back as the same number.
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
  if (!batch.guess.defined()) {
    return "index" + numbered("truth", batch.truth.size(1)) + numbered("prediction", batch.scores.size(1)) + "\n";
  }
  std::string line = "index,truth,guess";
  for (const auto& name : class_names(spec, batch.scores.size(1))) line += "," + csv_cell("score_" + name);
  return line + "\n";
}

std::string prediction_lines(const PredictedBatch& batch, const DataSpec& spec) {
  const bool classes = batch.guess.defined();
  const auto names = classes ? class_names(spec, batch.scores.size(1)) : std::vector<std::string>();
  const auto name = [&](const at::Tensor& index) {
    const auto number = index.item<int64_t>();
    const bool known =
        number >= 0 && number < static_cast<int64_t>(names.size());  // not so where nobody knows the truth
    return known ? csv_cell(names[static_cast<size_t>(number)]) : std::to_string(number);
  };
  std::string lines;
  for (int64_t row = 0; row < batch.index.size(0); ++row) {
    lines += std::to_string(batch.index[row].item<int64_t>());
    if (classes) {
      lines += "," + name(batch.truth[row]) + "," + name(batch.guess[row]);
    } else {
      append_numbers(lines, batch.truth[row]);
    }
    append_numbers(lines, batch.scores[row]);
    lines += "\n";
  }
  return lines;
}

}  // namespace ddprun

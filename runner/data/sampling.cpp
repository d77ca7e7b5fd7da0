// SPDX-License-Identifier: MIT
#include "data/sampling.h"

#include "base/log.h"
#include "data/data_survey.h"

#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/safetensors.h>

#include <ATen/ATen.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

using Path = std::filesystem::path;

std::vector<double> values_of(const at::Tensor& tensor) {
  const auto flat = tensor.to(at::kDouble).contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

std::vector<double> read_tensor(const Path& file) {
  const auto tensors = read_safetensors(file);
  if (tensors.size() != 1 || tensors.begin()->second.dim() != 1)
    throw UserError(log::text(file.string(), ": expected one tensor of one dimension, found ", tensors.size(),
                              tensors.size() == 1 ? " of another form" : " tensors"));
  return values_of(tensors.begin()->second);
}

// Reads a number in each line, as numpy.savetxt() writes them.
std::vector<double> read_lines(const Path& file) {
  const auto mapped = map_file(file);
  auto text = mapped.text();
  if (text.starts_with("\x93NUMPY"))
    throw UserError(file.string() + ": a .npy file; save the weights with numpy.savetxt(), or as .safetensors");
  std::vector<double> numbers;
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    double number = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error != std::errc() || rest != line.data() + line.size())
      throw UserError(
          log::text(file.string(), ":", numbers.size() + 1, ": expected a number, found \"", line.substr(0, 20), "\""));
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<double> read_weights(const Path& file, int64_t samples) {
  auto weights = file.extension() == ".safetensors" ? read_tensor(file) : read_lines(file);
  if (static_cast<int64_t>(weights.size()) != samples)
    throw UserError(log::text(file.string(), ": it has ", weights.size(), " weights, and train ", samples,
                              " samples; expected one for each"));
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw UserError(log::text(file.string(), ": the weight of sample ", i, " is ", weights[i],
                                ", expected a finite number of at least 0"));
    sum += weights[i];
  }
  if (!(sum > 0) || !std::isfinite(sum))
    throw UserError(log::text(file.string(), ": the sum of the weights is ", sum, ", expected more than 0"));
  return weights;
}

EpochOrder balanced_order(const Dataset& dataset, uint64_t seed) {
  const auto spec = dataset.spec();
  const auto labels = known_labels(dataset, Split::kTrain);
  if (spec.classes == 0 || !labels.defined() || labels.dim() != 1)
    throw UserError(
        "balance: class needs the class of each sample, which this dataset does not know without reading all of them; "
        "give a weight for each: {weights: FILE}");
  std::vector<int64_t> classes(labels.const_data_ptr<int64_t>(), labels.const_data_ptr<int64_t>() + labels.numel());
  std::vector<int64_t> counts(static_cast<size_t>(spec.classes));
  for (const auto label : classes) ++counts.at(static_cast<size_t>(label));
  for (size_t label = 0; label < counts.size(); ++label) {
    const auto name = label < spec.class_names.size() ? spec.class_names[label] : std::to_string(label);
    if (counts[label] == 0)
      throw UserError("balance: class cannot draw from the class " + name + ", which has no training sample");
  }
  std::vector<double> weights;
  for (const auto label : classes) weights.push_back(1.0 / static_cast<double>(counts[static_cast<size_t>(label)]));
  return {seed, std::move(weights), std::move(classes)};
}

}  // namespace

EpochOrder training_order(const Dataset& dataset, const TrainerConfig& config, uint64_t seed) try {
  const auto samples = dataset.size(Split::kTrain);
  if (config.sampling.balance_classes) return balanced_order(dataset, seed);
  if (!config.sampling.weights.empty()) return {seed, read_weights(config.sampling.weights, samples)};
  return {seed, samples, config.shuffle && config.overfit_batches == 0};
} catch (const UserError& error) {
  throw UserError(config.sampling.place + error.what());
}

}  // namespace ddprun

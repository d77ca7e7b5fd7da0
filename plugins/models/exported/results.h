// SPDX-License-Identifier: MIT
// What a loss of an archive gives besides itself, and what each result is a mean over.
#pragma once

#include <ddprun/metric.h>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::exported {

// As tools/export_model has found it out, with -100 among the targets.
struct ResultForm {
  std::string name;
  // The first of a sample's targets that counts, unless it is kIgnoredClass; nothing: each sample counts once.
  std::optional<int64_t> first_target;
};

// Returns the forms that extra/ddprun.json names, the loss itself first; none for a network that gives its prediction.
std::vector<ResultForm> result_forms(const nlohmann::json& about);

// Returns how many of the targets, [B] or [B, T ...], a result is the mean over, int64 scalar on their device;
// undefined: all samples.
at::Tensor counted_by(const ResultForm& form, const at::Tensor& target);

// Returns the results after the first, which is the loss, as metrics of a batch of B samples. `results` are scalars.
std::vector<MetricSum> metric_sums(const std::vector<ResultForm>& forms, const std::vector<at::Tensor>& results,
                                   const at::Tensor& target, int64_t samples);

}  // namespace ddprun::exported

// SPDX-License-Identifier: MIT
#include "results.h"

#include <ddprun/error.h>
#include <ddprun/objective.h>

#include <ATen/ATen.h>

#include <utility>

namespace ddprun::exported {

std::vector<ResultForm> result_forms(const nlohmann::json& about) {
  std::vector<ResultForm> forms;
  for (const auto& name : about.value("results", std::vector<std::string>())) forms.push_back({.name = name});
  const auto over = about.value("over", nlohmann::json::array());
  bool fits = over.is_array() && over.size() <= forms.size();
  for (size_t i = 0; fits && i < over.size(); ++i) {
    if (over[i].is_null()) continue;
    fits = over[i].is_number_unsigned() && over[i].get<uint64_t>() <= 1;
    if (fits) forms[i].first_target = over[i].get<int64_t>();
  }
  if (!fits) throw UserError("it is damaged: in extra/ddprun.json, over does not fit the results; export it again");
  return forms;
}

at::Tensor counted_by(const ResultForm& form, const at::Tensor& target) {
  if (!form.first_target || target.dim() < 2) return {};
  return count_classes(target.slice(/*dim=*/1, *form.first_target));
}

std::vector<MetricSum> metric_sums(const std::vector<ResultForm>& forms, const std::vector<at::Tensor>& results,
                                   const at::Tensor& target, int64_t samples) {
  std::vector<MetricSum> sums;
  for (size_t i = 1; i < results.size(); ++i) {
    const auto mean = results[i].detach().to(at::kDouble);
    const auto counted = counted_by(forms[i], target);
    const auto sum = counted.defined() ? at::where(counted.gt(0), mean * counted, 0.0) : mean * samples;
    sums.push_back({.name = forms[i].name, .sum = sum, .count = samples, .counted = counted});
  }
  return sums;
}

}  // namespace ddprun::exported

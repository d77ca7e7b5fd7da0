// SPDX-License-Identifier: MIT
#include <ddprun/objective.h>

namespace ddprun {

Objective::~Objective() = default;
void Objective::prepare(const DataSpec&) {}
at::Tensor Objective::counted(const at::Tensor&) const { return {}; }
bool Objective::takes_pixels() const { return false; }
std::vector<MetricSum> Objective::metrics(const at::Tensor&, const at::Tensor&) const { return {}; }
std::vector<MetricCounts> Objective::counts(const at::Tensor&, const at::Tensor&) const { return {}; }

std::vector<std::pair<std::string, double>> Objective::summary(const std::vector<MetricCounts>&) const { return {}; }

at::Tensor Objective::scores(const at::Tensor& prediction) const { return prediction; }

}  // namespace ddprun

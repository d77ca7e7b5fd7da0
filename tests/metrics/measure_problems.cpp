// SPDX-License-Identifier: MIT
// Measures problems that torchmetrics_test.py poses, in batches of 50 on two ranks: a JSON object from each line of
// standard input to one line of standard output.
#include "metrics/metric_counts.h"
#include "metrics/metric_sums.h"
#include "support/objective.h"
#include "support/ranks.h"

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <iostream>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

at::Tensor tensor(const json& values, const json& shape) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble).view(shape.get<std::vector<int64_t>>());
}

ddprun::NamedValues measure(const json& problem) {
  const auto name = problem.at("objective").get<std::string>();
  const auto objective = ddprun::testing::objective(name, json{{"metrics", problem.at("metrics")}}.dump());
  const auto prediction = tensor(problem.at("prediction"), problem.at("shape")).to(at::kFloat);
  const auto target =
      tensor(problem.at("target"), problem.at("target_shape")).to(name == "bce" ? at::kFloat : at::kLong);
  ddprun::NamedValues found;
  ddprun::testing::on_ranks(2, [&](ddprun::Communicator& ranks) {
    ddprun::CountSums sums;
    const auto predictions = prediction.split(50), targets = target.split(50);
    for (auto i = static_cast<size_t>(ranks.world().rank); i < targets.size(); i += 2)
      sums.add(objective->counts(predictions[i], targets[i]));
    const auto totals = sums.totals(ranks);
    if (ranks.world().rank == 0) found = objective->summary(totals);
  });
  return found;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    auto found = json::object();
    for (const auto& [name, value] : measure(json::parse(line))) found[name] = value;
    std::cout << found.dump() << std::endl;
  }
}

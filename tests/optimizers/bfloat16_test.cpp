// SPDX-License-Identifier: MIT
// Weights of bfloat16 (trainer.precision bf16_pure) go where weights of float32 do.
#include "optimizers/training.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const std::vector<OptimizerCase> kOfBfloat16 = {
    {"Sgd", "sgd", {{"lr", "0.1"}}},
    {"SgdWithNesterov", "sgd", {{"lr", "0.1"}, {"momentum", "0.9"}, {"nesterov", "true"}, {"weight_decay", "0.1"}}},
    {"Adam", "adam", {{"lr", "0.1"}}},
    {"AdamW", "adamw", {{"lr", "0.1"}}},
    {"Muon", "muon", {{"lr", "0.1"}, {"others_lr", "0.1"}, {"weight_decay", "0.1"}}},
    {"MuonWithNormalize", "muon", {{"lr", "0.1"}, {"momentum", "0"}, {"normalize", "true"}}},
};

class Bfloat16 : public ::testing::TestWithParam<OptimizerCase> {};

// 97 numbers: whole vectors of the CPU, and a rest.
std::vector<NamedParameter> parameters_of(at::ScalarType type) {
  torch::manual_seed(1);
  std::vector<NamedParameter> parameters;
  for (const auto& shape : std::vector<std::vector<int64_t>>{{97}, {97, 1}, {8, 3, 3, 3}, {40, 10}}) {
    const auto value = torch::randn(shape).to(at::kBFloat16).to(type).requires_grad_();
    parameters.push_back({"w" + std::to_string(parameters.size()), value});
  }
  return parameters;
}

TEST_P(Bfloat16, StepsAsInFloat32) {
  const auto parameters = parameters_of(at::kBFloat16), reference = parameters_of(at::kFloat);
  const auto start = copies(reference);
  for (const auto& [some, type] : {std::pair(&parameters, at::kBFloat16), {&reference, at::kFloat}}) {
    const auto optimizer = make_optimizer(GetParam().plugin, GetParam().options);
    optimizer->start(*some);
    for (int step = 0; step < 4; ++step) {
      torch::manual_seed(static_cast<uint64_t>(step));
      for (const auto& [name, value] : *some)
        value.mutable_grad() = torch::randn(value.sizes()).to(at::kBFloat16).to(type);
      optimizer->step();
    }
  }
  for (size_t i = 0; i < start.size(); ++i) {
    const auto way = (reference[i].value - start[i].value).norm().item<float>();
    const auto off = (parameters[i].value.to(at::kFloat) - reference[i].value).norm().item<float>();
    EXPECT_LT(off, 0.1F * way) << reference[i].value.sizes();
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Bfloat16, ::testing::ValuesIn(kOfBfloat16),
                         [](const auto& test) { return test.param.title; });

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
// The optimizers against those of LibTorch, which compute the same in another way, tensor by tensor, and with weights
// of bfloat16 (trainer.precision bf16_pure) against themselves with weights of float32.
#include "optimizers/training.h"

#include <functional>

namespace ddprun {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;
using Reference = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<NamedParameter>&)>;

struct TorchCase {
  OptimizerCase ours;
  Reference reference;
};

void PrintTo(const TorchCase& item, std::ostream* out) { *out << item.ours.title; }  // GoogleTest's name for this

template <class TorchOptimizer, class TorchOptions>
Reference reference(TorchOptions options) {
  return [options](const std::vector<NamedParameter>& parameters) {
    std::vector<at::Tensor> tensors;
    for (const auto& parameter : parameters) tensors.push_back(parameter.value);
    return std::make_unique<TorchOptimizer>(std::move(tensors), options);
  };
}

Reference sgd(SGDOptions options) { return reference<torch::optim::SGD>(options); }
Reference adam(AdamOptions options) { return reference<torch::optim::Adam>(options); }
Reference adamw(AdamWOptions options) { return reference<torch::optim::AdamW>(options); }

template <class TorchOptimizer, class TorchOptions>
Reference in_groups(TorchOptions options) {
  return [options](const std::vector<NamedParameter>& p) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const auto& numbers : std::vector<std::vector<size_t>>{{0, 3}, {1}, {2, 4, 5}}) {
      std::vector<at::Tensor> tensors;
      for (const auto number : numbers) tensors.push_back(p[number].value);
      groups.emplace_back(tensors);
    }
    auto optimizer = std::make_unique<TorchOptimizer>(groups, options);
    // Afterwards: LibTorch 2.15 takes a value that is the default for one that was not given.
    const auto options_of = [&](int group) -> TorchOptions& {
      return static_cast<TorchOptions&>(optimizer->param_groups()[group].options());
    };
    options_of(1).weight_decay(0);
    options_of(2).lr(0.01);
    return optimizer;
  };
}

constexpr auto kAllOfAdam = "{lr: 0.05, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.1, amsgrad: true}";

const std::vector<TorchCase> kTorchCases{
    {{"SgdByDefault", "sgd", "{}"}, sgd(SGDOptions(0.01))},
    {{"SgdWithMomentum", "sgd", "{lr: 0.1, momentum: 0.9, weight_decay: 1e-2}"},
     sgd(SGDOptions(0.1).momentum(0.9).weight_decay(1e-2))},
    {{"SgdWithDampening", "sgd", "{lr: 0.1, momentum: 0.5, dampening: 0.3}"},
     sgd(SGDOptions(0.1).momentum(0.5).dampening(0.3))},
    {{"SgdWithNesterov", "sgd", "{lr: 0.1, momentum: 0.9, nesterov: true}"},
     sgd(SGDOptions(0.1).momentum(0.9).nesterov(true))},
    {{"SgdInGroups", "sgd", "momentum: 0.9\n" + kGroups},
     in_groups<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9).weight_decay(0.1))},
    {{"AdamByDefault", "adam", "{}"}, adam(AdamOptions(1e-3))},
    {{"AdamWithAllOptions", "adam", kAllOfAdam},
     adam(AdamOptions(0.05).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1).amsgrad(true))},
    {{"AdamInGroups", "adam", kGroups}, in_groups<torch::optim::Adam>(AdamOptions(0.05).weight_decay(0.1))},
    {{"AdamWByDefault", "adamw", "{}"}, adamw(AdamWOptions(1e-3).weight_decay(0.01))},
    {{"AdamWWithAllOptions", "adamw", kAllOfAdam},
     adamw(AdamWOptions(0.05).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1).amsgrad(true))},
    {{"AdamWInGroups", "adamw", "amsgrad: true\n" + kGroups},
     in_groups<torch::optim::AdamW>(AdamWOptions(0.05).weight_decay(0.1).amsgrad(true))},
};

class AgainstTorch : public ::testing::TestWithParam<TorchCase> {};

TEST_P(AgainstTorch, TwentyStepsAgreeOfRatesThatChange) {
  const auto ours = make_parameters(), theirs = copies(ours);
  const auto optimizer = GetParam().ours.started(ours);
  const auto reference = GetParam().reference(theirs);
  for (int64_t step = 1; step <= 20; ++step) {
    if (step > 7) {  // what a schedule does
      for (auto& group : optimizer->groups()) group.lr *= 0.9;
      for (auto& group : reference->param_groups()) group.options().set_lr(group.options().get_lr() * 0.9);
    }
    train(*optimizer, ours, step, step + 1);
    train(*reference, theirs, step, step + 1);
    SCOPED_TRACE(step);
    expect_close(ours, theirs);
  }
  EXPECT_TRUE(torch::equal(ours[3].value, make_parameters()[3].value)) << "a parameter without a gradient has changed";
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AgainstTorch, ::testing::ValuesIn(kTorchCases),
                         [](const auto& test) { return test.param.ours.title; });

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
    const auto optimizer = GetParam().started(*some);
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

INSTANTIATE_TEST_SUITE_P(Optimizers, Bfloat16, ::testing::ValuesIn(kOptimizers),
                         [](const auto& test) { return test.param.title; });

}  // namespace
}  // namespace ddprun

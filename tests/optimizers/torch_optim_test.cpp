// SPDX-License-Identifier: MIT
// The optimizers against those of LibTorch, which compute the same in another way, tensor by tensor.
#include "optimizers/training.h"

#include <gtest/gtest.h>

#include <functional>

namespace ddprun {
namespace {

using Reference = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

struct TorchCase {
  std::string title, plugin;
  OptionTexts options;
  Reference reference;
};

void PrintTo(const TorchCase& item, std::ostream* out) { *out << item.title; }  // GoogleTest's name for this function

template <class TorchOptimizer, class TorchOptions>
Reference reference(TorchOptions options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<TorchOptimizer>(std::move(parameters), options);
  };
}

Reference sgd(torch::optim::SGDOptions options) { return reference<torch::optim::SGD>(options); }
Reference adam(torch::optim::AdamOptions options) { return reference<torch::optim::Adam>(options); }
Reference adamw(torch::optim::AdamWOptions options) { return reference<torch::optim::AdamW>(options); }

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

std::vector<TorchCase> torch_cases() {
  return {
      {"SgdByDefault", "sgd", {}, sgd(SGDOptions(0.01))},
      {"SgdWithMomentum",
       "sgd",
       {{"lr", "0.1"}, {"momentum", "0.9"}, {"weight_decay", "1e-2"}},
       sgd(SGDOptions(0.1).momentum(0.9).weight_decay(1e-2))},
      {"SgdWithDampening",
       "sgd",
       {{"lr", "0.1"}, {"momentum", "0.5"}, {"dampening", "0.3"}},
       sgd(SGDOptions(0.1).momentum(0.5).dampening(0.3))},
      {"SgdWithNesterov",
       "sgd",
       {{"lr", "0.1"}, {"momentum", "0.9"}, {"nesterov", "true"}},
       sgd(SGDOptions(0.1).momentum(0.9).nesterov(true))},
      {"AdamByDefault", "adam", {}, adam(AdamOptions(1e-3))},
      {"AdamWithAllOptions",
       "adam",
       {{"lr", "0.05"}, {"betas", "[0.8, 0.95]"}, {"eps", "1e-6"}, {"weight_decay", "0.1"}, {"amsgrad", "true"}},
       adam(AdamOptions(0.05).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1).amsgrad(true))},
      {"AdamWByDefault", "adamw", {}, adamw(AdamWOptions(1e-3).weight_decay(0.01))},
      {"AdamWWithAllOptions",
       "adamw",
       {{"lr", "0.05"}, {"betas", "[0.8, 0.95]"}, {"eps", "1e-6"}, {"weight_decay", "0.1"}, {"amsgrad", "true"}},
       adamw(AdamWOptions(0.05).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1).amsgrad(true))},
  };
}

class AgainstTorch : public ::testing::TestWithParam<TorchCase> {};

void expect_close(const NamedParameter& ours, const NamedParameter& theirs, int64_t step) {
  const double tolerance = ours.value.scalar_type() == at::kDouble ? 1e-13 : 2e-6;
  EXPECT_TRUE(torch::allclose(ours.value, theirs.value, tolerance, tolerance))
      << ours.name << " after step " << step << ": " << (ours.value - theirs.value).abs().max();
}

TEST_P(AgainstTorch, TwentyStepsAgree) {
  const auto ours = make_parameters();
  const auto theirs = copies(ours);
  const auto optimizer = make_optimizer(GetParam().plugin, GetParam().options);
  optimizer->start(ours);
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : theirs) tensors.push_back(parameter.value);
  const auto reference = GetParam().reference(tensors);
  for (int64_t step = 1; step <= 20; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    optimizer->step();
    reference->step();
    for (size_t i = 0; i < ours.size(); ++i) expect_close(ours[i], theirs[i], step);
  }
  EXPECT_TRUE(torch::equal(ours[3].value, make_parameters()[3].value)) << "a parameter without a gradient has changed";
}

TEST_P(AgainstTorch, AChangedLearningRateCountsFromTheNextStep) {
  const auto ours = make_parameters();
  const auto theirs = copies(ours);
  const auto optimizer = make_optimizer(GetParam().plugin, GetParam().options);
  optimizer->start(ours);
  const auto reference = GetParam().reference({theirs[0].value});
  for (int64_t step = 1; step <= 6; ++step) {
    const double lr = 0.1 / static_cast<double>(step);
    optimizer->groups()[0].lr = lr;
    reference->param_groups()[0].options().set_lr(lr);
    set_gradients(ours, step);
    set_gradients(theirs, step);
    optimizer->step();
    reference->step();
    expect_close(ours[0], theirs[0], step);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AgainstTorch, ::testing::ValuesIn(torch_cases()),
                         [](const auto& test) { return test.param.title; });

}  // namespace
}  // namespace ddprun

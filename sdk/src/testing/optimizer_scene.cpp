// SPDX-License-Identifier: MIT
#include "optimizer_scene.h"

#include "problem.h"

#include <ATen/ATen.h>

namespace ddprun::check {

Parameters given_parameters() {
  const auto numbers = [](at::IntArrayRef shape, at::ScalarType type) {
    return at::randn(shape, type).requires_grad_();
  };
  at::manual_seed(1);
  return {{"conv.weight", numbers({8, 3, 3, 3}, at::kFloat)},
          {"conv.bias", numbers({8}, at::kFloat)},
          {"late", numbers({5}, at::kFloat)},
          {"frozen", numbers({4}, at::kFloat)},
          {"scale", numbers({}, at::kFloat)},
          {"double", numbers({7, 5}, at::kDouble)}};
}

Parameters copies(const Parameters& parameters) {
  Parameters result;
  for (const auto& [name, value] : parameters) result.push_back({name, value.detach().clone().requires_grad_()});
  return result;
}

void give_gradients(const Parameters& parameters, int64_t step) {
  at::manual_seed(static_cast<uint64_t>(100 + step));
  for (const auto& [name, value] : parameters) {
    const auto gradient = at::randn_like(value.detach());
    const bool none = name == "frozen" || (name == "late" && step < 5);
    value.mutable_grad() = none ? at::Tensor() : gradient;
  }
}

std::shared_ptr<Optimizer> started(const OptimizerTest& test, const Parameters& parameters) {
  auto optimizer = in_hook("the constructor", [&] { return test.make(); });
  in_hook("start()", [&] { optimizer->start(parameters); });
  return optimizer;
}

// Steps as the runner does.
void step(Optimizer& optimizer) {
  const at::NoGradGuard no_gradients;
  in_hook("step()", [&] { optimizer.step(); });
}

void train(Optimizer& optimizer, const Parameters& parameters, int64_t from, int64_t to) {
  for (int64_t number = from; number < to; ++number) {
    give_gradients(parameters, number);
    step(optimizer);
  }
}

std::string first_difference(const Parameters& one, const Parameters& other) {
  for (size_t i = 0; i < one.size(); ++i) {
    if (!at::equal(one[i].value, other[i].value)) return one[i].name;
  }
  return "";
}

}  // namespace ddprun::check

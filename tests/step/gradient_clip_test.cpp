// SPDX-License-Identifier: MIT
#include "step/gradients.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

std::vector<at::Tensor> parameters() {
  torch::manual_seed(5);
  std::vector<at::Tensor> parameters;
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{4, 3}, {7}, {}}) {
    parameters.push_back(torch::randn(shape).requires_grad_());
    parameters.back().mutable_grad() = torch::randn(shape) * 3;
  }
  return parameters;
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

void expect_equal(const std::vector<at::Tensor>& mine, const std::vector<at::Tensor>& torchs) {
  for (size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(torch::allclose(mine[i].grad(), torchs[i].grad()));
}

TEST(ClipNorm, IsTorchs) {
  for (const double limit : {0.5, 1000.0}) {
    const auto mine = parameters(), torchs = parameters();
    const auto norm = total_norm(norms_of(gradients(mine)));
    clip_norm(gradients(mine), norm, limit);
    EXPECT_NEAR(norm.item<double>(), torch::nn::utils::clip_grad_norm_(torchs, limit), 1e-4);
    expect_equal(mine, torchs);
  }
}

TEST(ClipValue, IsTorchs) {
  const auto mine = parameters(), torchs = parameters();
  clip_value(gradients(mine), 0.7);
  torch::nn::utils::clip_grad_value_(torchs, 0.7);
  expect_equal(mine, torchs);
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "comm/shared_buffers.h"

#include <ddprun/batch_norm.h>

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

namespace ddprun {
namespace {

class Network final : public Model {
 public:
  Network() {
    ours = register_module("ours", BatchNorm(4));
    torchs = register_module("torchs", torch::nn::BatchNorm2d(4));
    table = register_buffer("table", torch::ones({2}));
  }
  at::Tensor forward(const at::Tensor& input) override { return input; }

  BatchNorm ours{nullptr};
  torch::nn::BatchNorm2d torchs{nullptr};
  at::Tensor table;
};

bool has(const std::vector<at::Tensor>& tensors, const at::Tensor& one) {
  return std::ranges::any_of(tensors, [&](const at::Tensor& tensor) { return tensor.is_same(one); });
}

TEST(SharedBuffers, LeaveOutStatisticsOfNormsThatTrain) {
  const Network model;
  const auto read = SharedBuffers(model, /*all=*/false).read_by_step();
  ASSERT_EQ(read.size(), 1U);
  EXPECT_TRUE(read[0].is_same(model.table));
}

TEST(SharedBuffers, HaveThoseOfANormThatIsNoLongerInTrainingMode) {
  Network model;
  const SharedBuffers shared(model, /*all=*/false);
  model.torchs->eval();
  const auto read = shared.read_by_step();
  EXPECT_EQ(read.size(), 4U);
  EXPECT_TRUE(has(read, model.torchs->running_mean) && has(read, model.torchs->running_var));
}

TEST(SharedBuffers, AreAllWhereAllAreAskedFor) {
  const Network model;
  const auto read = SharedBuffers(model, /*all=*/true).read_by_step();
  EXPECT_EQ(read.size(), model.buffers().size());
  for (const auto& buffer : model.buffers()) EXPECT_TRUE(has(read, buffer));
}

}  // namespace
}  // namespace ddprun

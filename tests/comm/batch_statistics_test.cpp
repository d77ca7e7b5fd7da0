// SPDX-License-Identifier: MIT
#include "comm/replicate.h"
#include "comm/shared_buffers.h"
#include "support/error_of.h"
#include "support/ranks.h"

#include <torch/torch.h>

namespace ddprun {
namespace {

using testing::on_ranks;

// A convolution, normalisation, and another of both: statistics of statistics.
class NormalizedNet : public Model {
 public:
  NormalizedNet() {
    torch::manual_seed(1);
    first_ = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3)));
    norm1_ = register_module("norm1", BatchNorm(4));
    second_ = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 3, 1)));
    norm2_ = register_module("norm2", BatchNorm(BatchNormOptions{.channels = 3, .momentum = 0.3}));
  }
  at::Tensor forward(const at::Tensor& input) override { return norm2_(second_(norm1_(first_(input)).tanh())); }

 private:
  torch::nn::Conv2d first_{nullptr}, second_{nullptr};
  BatchNorm norm1_{nullptr}, norm2_{nullptr};
};

struct Sample {
  at::Tensor input, factor;  // what an output counts for in the loss
};

Sample samples(int64_t count) {
  torch::manual_seed(7);
  return {torch::randn({count, 2, 4, 4}).mul(2).add(1), torch::randn({count, 3, 2, 2})};
}

// What one rank or all ranks together have after two steps.
struct Outcome {
  at::Tensor output, input_gradient;  // of the last step; the gradient of the sum over ranks of their losses
  std::map<std::string, at::Tensor> gradients, buffers;
};

Outcome train(NormalizedNet& net, const at::Tensor& batch, const at::Tensor& factor, double weight) {
  Outcome outcome;
  for (int step = 0; step < 2; ++step) {
    net.zero_grad();
    const auto input = (batch + step).requires_grad_();
    outcome.output = net.forward(input);
    ((outcome.output * factor).sum({1, 2, 3}).mean() * weight).backward();
    outcome.input_gradient = input.grad();
  }
  for (const auto& entry : net.named_parameters()) outcome.gradients[entry.key()] = entry.value().grad();
  for (const auto& entry : net.named_buffers()) outcome.buffers[entry.key()] = entry.value();
  return outcome;
}

bool close(const at::Tensor& one, const at::Tensor& other) { return torch::allclose(one, other, 1e-5, 1e-5); }

std::vector<std::shared_ptr<NormalizedNet>> nets_of(size_t ranks) {
  std::vector<std::shared_ptr<NormalizedNet>> nets(ranks);
  for (auto& net : nets) net = std::make_shared<NormalizedNet>();
  return nets;
}

// Each rank has so many samples of one batch; one with none computes on the first sample, with weight 0.
TEST(SynchronizedBatchNorm, SharesOfABatchAreAsOneBatchAndAllRanksHoldTheSameBitsOfStatistics) {
  for (const std::vector<int64_t>& shares : {std::vector<int64_t>{3, 1}, {2, 2, 2}, {4, 2, 1}, {2, 1, 1, 0}}) {
    const auto ranks = static_cast<int64_t>(shares.size());
    const auto total = std::accumulate(shares.begin(), shares.end(), int64_t{0});
    const auto data = samples(total);
    const auto alone = train(*nets_of(1)[0], data.input, data.factor, 1);
    const auto nets = nets_of(shares.size());
    on_ranks(ranks, [&](Communicator& communicator) {
      const auto rank = communicator.world().rank;
      const auto first = std::accumulate(shares.begin(), shares.begin() + rank, int64_t{0});
      const bool borrows = shares[rank] == 0;
      const auto begin = borrows ? 0 : first, end = borrows ? 1 : first + shares[rank];
      const auto statistics = synchronize_batch_norm(*nets[rank], communicator);
      statistics->counts = !borrows;
      const auto weight = static_cast<double>(shares[rank] * ranks) / static_cast<double>(total);
      auto mine = train(*nets[rank], data.input.slice(0, begin, end), data.factor.slice(0, begin, end), weight);
      EXPECT_TRUE(close(mine.output, alone.output.slice(0, begin, end)));
      const auto input_gradient = alone.input_gradient.slice(0, begin, end) * static_cast<double>(borrows ? 0 : ranks);
      EXPECT_TRUE(close(mine.input_gradient, input_gradient));
      for (auto& [name, gradient] : mine.gradients) {
        communicator.sum(gradient);
        EXPECT_TRUE(close(gradient / static_cast<double>(ranks), alone.gradients.at(name))) << name;
      }
    });
    for (const auto& net : nets) {
      for (const auto& entry : net->named_buffers()) {
        EXPECT_TRUE(close(entry.value(), alone.buffers.at(entry.key()))) << entry.key();
        EXPECT_TRUE(torch::equal(entry.value(), nets[0]->named_buffers()[entry.key()])) << entry.key();
      }
    }
  }
}

TEST(SynchronizedBatchNorm, ALostRankIsNoticedInBackward) {
  const auto data = samples(4);
  const auto nets = nets_of(2);
  EXPECT_THROW(on_ranks(2,
                        [&](Communicator& communicator) {
                          const auto rank = communicator.world().rank;
                          synchronize_batch_norm(*nets[rank], communicator);
                          const auto loss = nets[rank]->forward(data.input).square().sum();
                          if (rank == 0) loss.backward();
                        }),
               CommunicationError);
}

class ForeignNet : public Model {
 public:
  ForeignNet() {
    register_module("stem", torch::nn::Sequential(torch::nn::Linear(2, 2), torch::nn::BatchNorm1d(2)));
    register_module("ours", BatchNorm(2));
    register_module("each", torch::nn::InstanceNorm1d(torch::nn::InstanceNorm1dOptions(2).track_running_stats(true)));
    register_module("norm", torch::nn::BatchNorm2d(2));
    register_module("unscaled", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(2).affine(false)));
  }
  at::Tensor forward(const at::Tensor& input) override { return input; }
};

TEST(SynchronizedBatchNorm, NamesTheLayersThatCannotBeSynchronized) {
  on_ranks(1, [](Communicator& communicator) {
    EXPECT_TRUE(says(error_of([&] { synchronize_batch_norm(*std::make_shared<ForeignNet>(), communicator); }),
                     "ranks: stem.1, norm, unscaled. Use ddprun::BatchNorm"));
  });
}

TEST(SynchronizedBatchNorm, AloneItKeepsTheBitsOfTorch) {
  const auto data = samples(4);
  const auto plain = train(*std::make_shared<NormalizedNet>(), data.input, data.factor, 1);
  on_ranks(1, [&](Communicator& communicator) {
    const auto net = std::make_shared<NormalizedNet>();
    synchronize_batch_norm(*net, communicator);
    EXPECT_TRUE(torch::equal(train(*net, data.input, data.factor, 1).output, plain.output));
  });
}

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
  Network model;
  const SharedBuffers shared(model, /*all=*/false);
  const auto read = shared.read_by_step();
  ASSERT_EQ(read.size(), 1U);
  EXPECT_TRUE(read[0].is_same(model.table));
  model.torchs->eval();
  const auto others = shared.read_by_step();
  EXPECT_EQ(others.size(), 4U) << "of a norm that is no longer in training mode";
  EXPECT_TRUE(has(others, model.torchs->running_mean) && has(others, model.torchs->running_var));
}

TEST(SharedBuffers, AreAllWhereAllAreAskedFor) {
  const Network model;
  const auto read = SharedBuffers(model, /*all=*/true).read_by_step();
  EXPECT_EQ(read.size(), model.buffers().size());
  for (const auto& buffer : model.buffers()) EXPECT_TRUE(has(read, buffer));
}

}  // namespace
}  // namespace ddprun

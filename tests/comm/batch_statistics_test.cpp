// SPDX-License-Identifier: MIT
#include "comm/replicate.h"
#include "comm/shared_buffers.h"
#include "support/ranks.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

using testing::on_ranks;

// A linear layer, normalisation, and another of both: statistics of statistics.
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

// Each rank has so many samples of one batch; one with none computes on the first sample, with weight 0.
void expect_same_as_alone(const std::vector<int64_t>& shares) {
  const auto ranks = static_cast<int64_t>(shares.size());
  const auto total = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  const auto data = samples(total);
  const auto alone = train(*std::make_shared<NormalizedNet>(), data.input, data.factor, 1);
  std::vector<std::shared_ptr<NormalizedNet>> nets;
  for (int64_t rank = 0; rank < ranks; ++rank) nets.push_back(std::make_shared<NormalizedNet>());
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
    for (auto& [name, buffer] : mine.buffers) EXPECT_TRUE(close(buffer, alone.buffers.at(name))) << name;
  });
}

TEST(SynchronizedBatchNorm, UnevenSharesAreAsOneBatch) { expect_same_as_alone({3, 1}); }

TEST(SynchronizedBatchNorm, EvenSharesAreAsOneBatch) { expect_same_as_alone({2, 2, 2}); }

TEST(SynchronizedBatchNorm, ABorrowedSampleCountsForNothing) { expect_same_as_alone({2, 1, 1, 0}); }

TEST(SynchronizedBatchNorm, AllRanksHoldTheSameBitsOfRunningStatistics) {
  const auto data = samples(7);
  std::vector<std::map<std::string, at::Tensor>> buffers(3);
  std::vector<std::shared_ptr<NormalizedNet>> nets;
  for (int rank = 0; rank < 3; ++rank) nets.push_back(std::make_shared<NormalizedNet>());
  on_ranks(3, [&](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    synchronize_batch_norm(*nets[rank], communicator);
    const auto begin = std::array{0, 4, 6}[rank], end = std::array{4, 6, 7}[rank];
    buffers[rank] = train(*nets[rank], data.input.slice(0, begin, end), data.factor.slice(0, begin, end), 1).buffers;
  });
  for (const auto& [name, buffer] : buffers[0]) {
    EXPECT_TRUE(torch::equal(buffer, buffers[1].at(name)) && torch::equal(buffer, buffers[2].at(name))) << name;
  }
}

TEST(SynchronizedBatchNorm, ALostRankIsNoticedInBackward) {
  const auto data = samples(4);
  std::vector<std::shared_ptr<NormalizedNet>> nets{std::make_shared<NormalizedNet>(),
                                                   std::make_shared<NormalizedNet>()};
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
    try {
      synchronize_batch_norm(*std::make_shared<ForeignNet>(), communicator);
      FAIL() << "accepted";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("ranks: stem.1, norm, unscaled. Use ddprun::BatchNorm"));
    }
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

}  // namespace
}  // namespace ddprun

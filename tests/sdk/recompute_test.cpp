// SPDX-License-Identifier: MIT
#include "support/error_of.h"

#include <ddprun/batch_norm.h>
#include <ddprun/dropout.h>
#include <ddprun/error.h>
#include <ddprun/fused_layers.h>
#include <ddprun/recompute.h>

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kFeatures = 8;

// Has what can go wrong: statistics that each forward changes, random numbers, an activation in place.
class NoisyImpl : public torch::nn::Module {
 public:
  NoisyImpl() {
    layer_ = register_module("layer", torch::nn::Linear(kFeatures, kFeatures));
    norm_ = register_module("norm", BatchNorm(kFeatures));
  }

  at::Tensor forward(const at::Tensor& input) {
    ++calls;
    auto x = norm_->relu(layer_(input).unsqueeze(2).unsqueeze(3)).flatten(1);
    kept = x.storage().getWeakStorageImpl();
    x = ddprun::dropout(x, 0.3, is_training());
    return at::dropout(x, 0.2, is_training()).mul(input).relu_();
  }

  int calls = 0;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> kept;  // what BatchNorm has given

 private:
  torch::nn::Linear layer_{nullptr};
  BatchNorm norm_{nullptr};
};
TORCH_MODULE(Noisy);

class Network : public torch::nn::Module {
 public:
  Network() {
    for (const char* name : {"first", "second", "third"}) blocks.push_back(register_module(name, Noisy()));
    last = register_module("last", torch::nn::Linear(kFeatures, 3));
  }

  at::Tensor forward(const at::Tensor& input) {
    auto x = input;
    for (auto& block : blocks) x = recomputed(block, x);
    return last(recomputed(blocks.front(), x));  // its weights are used twice
  }

  std::vector<Noisy> blocks;
  torch::nn::Linear last{nullptr};
};

struct Trained {
  std::vector<at::Tensor> numbers;  // loss, gradients, buffers, and random numbers drawn afterwards
  std::vector<int> calls;
};

class Autocast {
 public:
  explicit Autocast(bool on) {
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

Trained trained(const std::vector<std::string>& chosen, bool autocast, bool fused) {
  torch::manual_seed(3);
  const auto network = std::make_shared<Network>();
  RecomputedBlocks blocks(network);
  blocks.choose(chosen);
  Trained results;
  for (int step = 0; step < 2; ++step) {
    at::Tensor loss;
    {
      const Autocast cast(autocast);
      const FusedLayersScope fusing(fused);
      loss = network->forward(torch::randn({6, kFeatures})).to(at::kFloat).square().mean();
    }
    loss.backward();
    results.numbers.push_back(loss.detach());
  }
  for (const auto& parameter : network->parameters()) results.numbers.push_back(parameter.grad());
  for (const auto& buffer : network->buffers()) results.numbers.push_back(buffer);
  results.numbers.push_back(torch::randn({4}));
  for (const auto& block : network->blocks) results.calls.push_back(block->calls);
  return results;
}

TEST(Recompute, ChangesNoBitOfLossGradientsStatisticsAndRandomNumbers) {
  for (const bool autocast : {false, true}) {
    for (const bool fused : {false, true}) {
      const auto plain = trained({}, autocast, fused);
      EXPECT_THAT(plain.calls, ElementsAre(4, 2, 2));
      for (const auto& chosen : std::vector<std::vector<std::string>>{{"second"}, {"first", "second", "third"}}) {
        const auto again = trained(chosen, autocast, fused);
        ASSERT_EQ(again.numbers.size(), plain.numbers.size());
        for (size_t i = 0; i < plain.numbers.size(); ++i)
          EXPECT_TRUE(at::equal(again.numbers[i], plain.numbers[i])) << i << " autocast " << autocast << fused;
        EXPECT_EQ(again.calls[1], 4);
      }
    }
  }
}

TEST(Recompute, KeepsOnlyWhatIsNotChosenAndDoesNothingWhileNoGradientsAreRecorded) {
  const auto network = std::make_shared<Network>();
  RecomputedBlocks blocks(network);
  blocks.choose({"second"});
  const auto result = network->forward(torch::randn({6, kFeatures}));
  EXPECT_FALSE(network->blocks[2]->kept->expired());
  EXPECT_TRUE(network->blocks[1]->kept->expired());
  const torch::NoGradGuard no_gradients;
  network->forward(torch::randn({6, kFeatures}));
  EXPECT_EQ(network->blocks[1]->calls, 2);
}

TEST(Recompute, NestedBlocksAreComputedAgainWithinTheOuterOnes) {
  torch::nn::Linear outer(kFeatures, kFeatures), inner(kFeatures, kFeatures);
  const auto network = std::make_shared<torch::nn::Module>();
  network->register_module("outer", outer);
  network->register_module("inner", inner);
  RecomputedBlocks blocks(network);
  const auto input = torch::randn({4, kFeatures});
  const auto gradients = [&] {
    outer->zero_grad();
    inner->zero_grad();
    const auto forward = [&](const at::Tensor& x) { return recomputed(inner, outer->forward(x).tanh()).sigmoid(); };
    recomputed(*outer, forward, input).sum().backward();
    return std::vector{outer->weight.grad().clone(), inner->weight.grad().clone()};
  };
  const auto plain = gradients();
  for (const auto& chosen : std::vector<std::vector<std::string>>{{"outer"}, {"inner"}, {"outer", "inner"}}) {
    blocks.choose(chosen);
    const auto again = gradients();
    EXPECT_TRUE(at::equal(again[0], plain[0]));
    EXPECT_TRUE(at::equal(again[1], plain[1]));
  }
}

TEST(Recompute, KnowsWhichBlocksAskedByTheirNames) {
  const auto network = std::make_shared<Network>(), other = std::make_shared<Network>();
  RecomputedBlocks blocks(network);
  EXPECT_THAT(blocks.known(), ElementsAre());
  network->forward(torch::randn({6, kFeatures}));
  other->forward(torch::randn({6, kFeatures}));  // of a model that nobody chooses from
  EXPECT_THAT(blocks.known(), ElementsAre("first", "second", "third"));
}

// Returns the error of a backward through a block that computes something else each time, or that gets it.
std::string error_in_backward(const std::function<at::Tensor(const at::Tensor& input, int call)>& forward,
                              const std::function<void(const at::Tensor& input)>& afterwards = nullptr) {
  const auto network = std::make_shared<Network>();
  RecomputedBlocks blocks(network);
  blocks.choose({"first"});
  auto calls = std::make_shared<int>(0);
  const auto input = torch::ones({4, kFeatures}, at::requires_grad()) * 2;
  auto& first = *network->blocks.front();
  const auto result = recomputed(first, [&, calls](const at::Tensor& x) { return forward(x, ++*calls); }, input);
  if (afterwards) afterwards(input);
  return ddprun::error_of([&] { result.sum().backward(); });
}

TEST(Recompute, RefusesABlockThatDependsOnMoreThanItsInput) {
  const auto exp = [](const at::Tensor& x, int) { return x.exp(); };
  const auto change = [](const at::Tensor& input) { input.detach().add_(1); };
  EXPECT_EQ(error_in_backward(exp), "");
  for (const auto& [text, words] : {
           std::pair{
               error_in_backward([](const at::Tensor& x, int call) { return call == 1 ? x.exp() : x.exp().sin(); }),
               "trainer.recompute: first kept 1 tensor for backward, and 2 when it was computed again"},
           {error_in_backward([](const at::Tensor& x, int call) { return x.narrow(1, 0, call).exp(); }),
            "first kept 1 tensor for backward, and others when it was computed again"},
           {error_in_backward(exp, change),
            "trainer.recompute: first cannot be computed again, since its input was changed in place"},
       })
    EXPECT_TRUE(says(text, words));
}

TEST(Recompute, RefusesABlockWhoseNumbersAreOthersIfTheyAreCompared) {
  const auto forward = [](const at::Tensor& x, int call) { return (x * call).exp(); };
  EXPECT_EQ(error_in_backward(forward), "");
  const ComparedBlocks compared;
  EXPECT_TRUE(says(error_in_backward(forward), " for backward, and others when it was computed again"));
  EXPECT_EQ(error_in_backward([](const at::Tensor& x, int) { return x.exp() + torch::rand({1}) * x.log(); }), "");
}

}  // namespace
}  // namespace ddprun

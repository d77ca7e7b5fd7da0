// SPDX-License-Identifier: MIT
// The reducer with shards, on ranks that are threads: whatever their number, the gradients have the same bits.
#include "comm/gradient_reducer.h"
#include "support/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <utility>

namespace ddprun {
namespace {

using testing::on_ranks;

// Weights of which one fills the first bucket, one is smaller than there are ranks, and one is not in every shard's
// loss. Values of very different sizes, so that each order of additions rounds otherwise.
struct Weights {
  at::Tensor large = weight({300'000}), odd = weight({1237}), tiny = weight({3}), rare = weight({64});
  at::Tensor filters = weight({8, 3, 5, 5});  // in channels last
  at::Tensor huge;  // fills another bucket, which goes in pieces; undefined unless it is asked for

  explicit Weights(bool with_huge) : huge(with_huge ? weight({4'200'000}) : at::Tensor()) {}

  static at::Tensor weight(at::IntArrayRef sizes) {
    auto weight = torch::zeros(sizes);
    if (sizes.size() == 4) weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
    return weight.requires_grad_();
  }
  std::vector<NamedParameter> named() const {
    std::vector<NamedParameter> all{
        {"large", large}, {"odd", odd}, {"tiny", tiny}, {"rare", rare}, {"filters", filters}};
    if (huge.defined()) all.push_back({"huge", huge});
    return all;
  }
};

// Ranks share what is made once.
at::Tensor factors(at::IntArrayRef sizes, int64_t shard) {
  static std::mutex mutex;
  static std::map<std::pair<std::vector<int64_t>, int64_t>, at::Tensor> made;
  const std::scoped_lock lock(mutex);
  auto& known = made[{sizes.vec(), shard}];
  if (known.defined()) return known;
  const auto steps = torch::arange(1, c10::multiply_integers(sizes) + 1, at::kFloat) * static_cast<float>(shard + 1);
  return known = (torch::sin(steps) * torch::exp(4 * torch::cos(3 * steps))).view(sizes);
}

at::Tensor loss_of(const Weights& weights, int64_t shard, const std::function<bool(int64_t)>& has_rare) {
  auto loss = at::Tensor();
  for (const auto& [name, weight] : weights.named()) {
    if (name == "rare" && !has_rare(shard)) continue;
    const auto part = (weight * factors(weight.sizes(), shard)).sum();
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
}

struct Case {
  int64_t shards = 8, present = 8, steps = 3;
  bool unused = true;  // whether c10d looks for unused parameters; else it makes its buckets anew after the first step
  std::function<bool(int64_t)> has_rare = [](int64_t) { return true; };
  bool huge = false;
  bool owners = false;  // each weight's gradient is needed by one rank
  bool whole = false;   // but the last step by all
};

int64_t owner_of(size_t weight, int64_t world) { return static_cast<int64_t>(2 * weight + 1) % world; }

// One rank's steps; the gradients of the last one.
std::vector<at::Tensor> gradients_of(const Case& what, Communicator& ranks) {
  const Weights weights(what.huge);
  ReducerOptions options{.find_unused_parameters = what.unused, .shards = what.shards};
  for (size_t i = 0; what.owners && i < weights.named().size(); ++i)
    options.owners.push_back(owner_of(i, ranks.world().size));
  GradientReducer reducer(weights.named(), ranks, options);
  const auto own = part_of(what.shards, ranks.world().rank, ranks.world().size);
  const auto end = std::min(own.end, what.present);
  for (int64_t step = 0; step < what.steps; ++step) {
    for (const auto& weight : weights.named()) weight.value.mutable_grad().reset();
    reducer.start(what.present, what.whole && step + 1 == what.steps);
    reducer.before_forward();
    for (auto shard = own.begin; shard + 1 < end; ++shard) reducer.accumulate(loss_of(weights, shard, what.has_rare));
    reducer.backward(loss_of(weights, own.begin < end ? end - 1 : 0, what.has_rare));
  }
  std::vector<at::Tensor> gradients;
  for (const auto& weight : weights.named())
    gradients.push_back(weight.value.grad().defined() ? weight.value.grad().clone() : at::Tensor());
  return gradients;
}

std::vector<at::Tensor> gradients_on(int64_t world, const Case& what) {
  std::vector<std::vector<at::Tensor>> all(world);
  on_ranks(world, [&](Communicator& ranks) { all[ranks.world().rank] = gradients_of(what, ranks); });
  if (what.owners && !what.whole && world > 1) {
    std::vector<at::Tensor> of_owners;
    for (size_t i = 0; i < all[0].size(); ++i) of_owners.push_back(all[static_cast<size_t>(owner_of(i, world))][i]);
    return of_owners;
  }
  for (const auto& others : all) {
    for (size_t i = 0; i < others.size(); ++i) {
      const bool both = others[i].defined() && all[0][i].defined();
      EXPECT_TRUE(both ? at::equal(others[i], all[0][i]) : others[i].defined() == all[0][i].defined());
    }
  }
  return all[0];
}

// Compares bits: the sign of a zero counts, and a NaN equals itself.
::testing::AssertionResult same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return ::testing::AssertionFailure() << i << " is defined in one alone";
    if (a[i].defined() && !at::equal(a[i].contiguous().view(at::kInt), b[i].contiguous().view(at::kInt)))
      return ::testing::AssertionFailure() << i << " differs";
  }
  return ::testing::AssertionSuccess();
}

void expect_same_on_all(const Case& what, const std::vector<int64_t>& worlds) {
  const auto alone = gradients_on(1, what);
  for (const auto world : worlds)
    EXPECT_TRUE(same_bits(gradients_on(world, what), alone)) << what.shards << " shards on " << world << " ranks";
}

TEST(ShardExchange, GradientsHaveTheSameBitsOnEveryNumberOfRanks) {
  expect_same_on_all({.shards = 8}, {2, 3, 4, 5, 8});
  expect_same_on_all({.shards = 8, .unused = false}, {2, 3, 8});
  expect_same_on_all({.shards = 5, .present = 5, .unused = false}, {2, 3, 5});
  expect_same_on_all({.shards = 3, .present = 3, .unused = false, .huge = true}, {2, 3});  // many buckets under way
}

TEST(ShardExchange, OwnersGetTheSameBitsOfTheirGradients) {
  expect_same_on_all({.shards = 8, .owners = true}, {2, 3, 4, 5, 8});
  expect_same_on_all({.shards = 8, .unused = false, .owners = true}, {2, 3, 8});
  expect_same_on_all({.shards = 8, .present = 3, .owners = true}, {2, 4, 8});
  expect_same_on_all({.shards = 3, .present = 3, .unused = false, .huge = true, .owners = true}, {2, 3});
}

TEST(ShardExchange, AllGetAllGradientsOfAWholeStep) {
  expect_same_on_all({.shards = 8, .unused = false, .huge = true, .owners = true, .whole = true}, {3, 4});
}

TEST(ShardExchange, GradientsAreTheSumOverTheShards) {
  const auto sums = gradients_on(3, {.shards = 7, .present = 7});
  for (size_t i = 0; i < sums.size(); ++i) {
    auto expected = torch::zeros(sums[i].sizes(), at::kDouble);
    for (int64_t shard = 0; shard < 7; ++shard) expected += factors(sums[i].sizes(), shard).to(at::kDouble);
    EXPECT_TRUE(at::allclose(sums[i].to(at::kDouble), expected, 1e-5, 1e-4)) << i;
  }
}

TEST(ShardExchange, ShardsAndRanksWithoutSamplesAddNothing) {
  expect_same_on_all({.shards = 8, .present = 3}, {2, 4, 8});
  expect_same_on_all({.shards = 4, .present = 1}, {3, 4});
}

TEST(ShardExchange, AParameterThatSomeShardsLeaveOutHasTheSameBitsToo) {
  for (const int64_t rest : {0, 1}) {
    expect_same_on_all({.shards = 8, .has_rare = [rest](int64_t shard) { return shard % 2 == rest; }}, {2, 3, 8});
  }
  expect_same_on_all({.shards = 8, .has_rare = [](int64_t shard) { return shard == 5; }}, {2, 3, 8});
}

TEST(ShardExchange, AParameterThatNoShardUsesHasNoGradient) {
  const Case none{.shards = 4, .present = 4, .has_rare = [](int64_t) { return false; }};
  for (const int64_t world : {1, 2, 4}) EXPECT_FALSE(gradients_on(world, none).at(3).defined()) << world << " ranks";
}

TEST(ShardExchange, ASumHasNoNegativeZero) {
  for (const int64_t world : {1, 2}) {
    on_ranks(world, [](Communicator& ranks) {
      const auto weight = torch::zeros({5}, torch::requires_grad());
      GradientReducer reducer({{"weight", weight}}, ranks, {.shards = 2});
      reducer.start(2);
      reducer.before_forward();
      const auto loss = [&] { return (weight * -0.0).sum(); };
      if (!ranks.is_distributed()) reducer.accumulate(loss());
      reducer.backward(loss());
      EXPECT_FALSE(weight.grad().signbit().any().item<bool>());
    });
  }
}

TEST(PartSums, HoldFewSumsAtATime) {
  const auto weight = torch::zeros({2}, torch::requires_grad());
  PartSums sums({weight});
  sums.start(ShardTree(8, 8, 1).own(0));
  size_t most = 0;
  for (int shard = 0; shard < 8; ++shard) {
    sums.before_part();
    most = std::max(most, sums.waiting().size());
    (weight * (1 << shard)).sum().backward();
    sums.after_part();
  }
  EXPECT_EQ(most, 2U) << "(0+1)+(2+3) and 4+5, while 6+7 are added up";
  EXPECT_TRUE(sums.waiting().empty());
  EXPECT_TRUE(at::equal(weight.grad(), torch::full({2}, 255)));
}

}  // namespace
}  // namespace ddprun

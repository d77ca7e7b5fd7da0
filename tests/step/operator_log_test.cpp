// SPDX-License-Identifier: MIT
#include "step/operator_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Work>
OperatorLog log_of(const Work& work, c10::Device device = at::kCPU) {
  OperatorLog log(device);
  const Listening listening(&log);
  work();
  return log;
}

TEST(OperatorLog, TheSameWorkHasTheSameLog) {
  const auto weight = torch::ones({3}).requires_grad_();
  const auto work = [&] { (weight * 2).sum().backward(); };
  work();  // the gradient is there
  const auto first = log_of(work);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first.difference(log_of(work)), "");
}

TEST(OperatorLog, ANumberThatChangesIsADifferenceAndTheValuesOfTensorsAreNone) {
  const auto one = torch::ones({3}), two = torch::full({3}, 2.0);
  const auto log = log_of([&] { return one.mul(0.1); });
  EXPECT_EQ(log.difference(log_of([&] { return two.mul(0.1); })), "");
  EXPECT_THAT(log.difference(log_of([&] { return one.mul(0.2); })),
              AllOf(HasSubstr("aten::mul"), HasSubstr("0.2"), HasSubstr("which was"), HasSubstr("0.1")));
  EXPECT_NE(log.difference(log_of([&] { return torch::ones({4}).mul(0.1); })), "");
}

// The meta device stands in for a GPU: it is not the host, and computes nothing.
TEST(OperatorLog, ANumberOfTheHostIsReportedWhereAKernelOfTheDeviceReadsIt) {
  const auto weight = at::ones({3}, at::kMeta);
  const auto scaled = [&](double factor) {
    return log_of([&, rate = at::scalar_tensor(factor)] { weight.mul(rate); }, at::kMeta);
  };
  EXPECT_EQ(scaled(0.1).difference(scaled(0.1)), "");
  EXPECT_THAT(scaled(0.1).difference(scaled(0.2)), HasSubstr("Float[]cpu=0.2"));
}

TEST(OperatorLog, WhatTheHostKeepsToItselfIsNotReported) {
  const auto worked = [](float left_in_memory) {
    return log_of(
        [&] {
          std::array<float, 1> memory{left_in_memory};
          const auto fresh = at::from_blob(memory.data(), {1});  // as at::empty gives it
          fresh.view({}).fill_(1).add(2);
        },
        at::kMeta);
  };
  const auto log = worked(5);
  EXPECT_FALSE(log.empty());
  EXPECT_EQ(log.difference(worked(6)), "");
}

// It lies on the device in a capture, else on the host, with another number each time, or with none.
TEST(OperatorLog, TheStateOfAttentionsDropoutIsNotReported) {
  const auto some = at::ones({1, 1, 8, 4}, at::kMeta), sums = at::ones({1, 1, 8}, at::kMeta);
  const auto worked = [&](const at::Tensor& state) {
    return log_of(
        [&] {
          EXPECT_THROW(at::_scaled_dot_product_efficient_attention_backward(some, some, some, some, {}, some, sums,
                                                                            state, state, 0, {true, true, true, false}),
                       c10::Error);  // the stand-in has no kernel of it; the call is heard before
          some.neg();
        },
        at::kMeta);
  };
  const auto log = worked(at::scalar_tensor(5, at::kLong));
  EXPECT_THAT(log.entries(), ::testing::Contains(HasSubstr("aten::neg")));
  EXPECT_EQ(log.difference(worked(at::scalar_tensor(6, at::kLong))), "");
  EXPECT_EQ(log.difference(worked(at::empty({}, at::TensorOptions(at::kLong).device(at::kMeta)))), "");
}

TEST(OperatorLog, TheDifferenceIsShownHoweverFarBehindItIs) {
  const auto many = [](int64_t size) {
    std::vector<at::Tensor> parts(20, at::ones({3, 4, 5}));
    parts.push_back(at::ones({3, 4, size}));
    return log_of([&] { at::_foreach_exp(parts); });
  };
  EXPECT_THAT(many(7).difference(many(8)),
              AllOf(HasSubstr("aten::_foreach_exp(... "), HasSubstr("Float[3, 4, 8]"), HasSubstr("Float[3, 4, 7]")));
}

TEST(OperatorLog, ANumberOfTheHostThatStepsWriteIsADifference) {
  const auto count = at::zeros({1}, at::kLong);
  const auto step = [&] { return log_of([&] { count.add_(1); }, at::kMeta); };
  const auto first = step();
  EXPECT_THAT(first.difference(step()), AllOf(HasSubstr("aten::add_"), HasSubstr("written")));
}

TEST(OperatorLog, SomethingMoreOrLessIsADifference) {
  const auto one = torch::ones({3});
  const auto log = log_of([&] { return one.exp(); });
  EXPECT_THAT(log.difference(log_of([&] { return one.exp().exp(); })), HasSubstr("which was nothing"));
  EXPECT_THAT(log.difference(log_of([] {})), HasSubstr("nothing, which was aten::exp"));
}

TEST(OperatorLog, HearsBackward) {
  const auto weight = torch::ones({3}).requires_grad_();
  const auto loss = (weight * weight).sum();
  const auto log = log_of([&] { loss.backward(); });
  EXPECT_THAT(log.entries(), ::testing::Contains(HasSubstr("aten::mul")));
}

TEST(OperatorLog, ListensNoLongerThanItsScope) {
  const auto log = log_of([] {});
  torch::ones({3}).exp();
  EXPECT_TRUE(log.empty());
}

}  // namespace
}  // namespace ddprun

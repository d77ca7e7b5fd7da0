// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> that train a model, with one model for each thing that they find.
#include "sdk/testing_model.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun::check {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// --- overfits

class Blind : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return Net::forward(input * 0); }
};

class Exploding : public Net {
 public:
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = Net::step(batch, objective);
    if (++steps_ == 3) step.loss = step.loss / 0;
    return step;
  }

 private:
  int steps_ = 0;
};

TEST(ModelOverfits, IsToldWhereItLearnsNothing) {
  EXPECT_THAT(
      overfits(test_of<Blind>()),
      AllOf(StartsWith("after 200 steps of Adam on the same 8 samples the loss is "), HasSubstr("expected below")));
  EXPECT_THAT(overfits(test_of<Net>(), {.lr = 0}), HasSubstr("nothing is learnt"));
  EXPECT_THAT(overfits(test_of<Exploding>()), StartsWith("the loss is inf at step 3"));
}

// --- state

class WithAMemoryOfItsOwn : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    if (is_training()) seen_ += 1;
    return Net::forward(input) * seen_;
  }

 private:
  double seen_ = 1;
};

class NamedByACounter : public Net {
 public:
  void prepare(const DataSpec& data) override {
    static int made = 0;
    Net::prepare(data);
    register_buffer("buffer" + std::to_string(++made), torch::zeros({1}));
  }
};

TEST(ModelState, IsAllThatPredictionsDependOn) {
  EXPECT_THAT(state_round_trip(test_of<WithAMemoryOfItsOwn>()),
              AllOf(HasSubstr("in no checkpoint"), HasSubstr("register_buffer()")));
  EXPECT_THAT(state_round_trip(test_of<NamedByACounter>()), HasSubstr("made again, the model has no tensor buffer"));
}

// --- ranks

class Summing : public Net {
 public:
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = Net::step(batch, objective);
    step.loss = step.loss * batch.size();
    return step;
  }
};

// Nothing is wrong with it in evaluation.
class ContrastingInTraining : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    const auto output = Net::forward(input);
    return is_training() ? output - output.mean(0) : output;
  }
};

class MeanMetric : public Net {
 public:
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = Net::step(batch, objective);
    step.metrics = {{"error", forward(batch.input).detach().square().mean(), batch.size()}};
    return step;
  }
};

TEST(ModelRanks, TrainTheMeanOverAllSamples) {
  EXPECT_THAT(ranks_agree(test_of<Summing>()), HasSubstr("step() gives the sum over its samples; give their mean"));
  EXPECT_THAT(ranks_agree(test_of<ContrastingInTraining>()), HasSubstr("each apart from the others"));
  EXPECT_THAT(ranks_agree(test_of<MeanMetric>()),
              AllOf(StartsWith("metric error is"), HasSubstr("a sum over the samples")));
}

TEST(ModelRanks, NeedAFewSamples) {
  auto test = test_of<Net>();
  test.batch = random_batch(kData, 2);
  EXPECT_THAT(ranks_agree(test), HasSubstr("at least 3"));
}

}  // namespace
}  // namespace ddprun::check

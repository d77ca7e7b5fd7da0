// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good model, which all of them pass, and one model for each thing that they
// find.
#include "sdk/testing_model.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun::check {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// --- good ones

class WithNoiseAndStatistics : public Net {
 public:
  void prepare(const DataSpec& data) override {
    Net::prepare(data);
    norm_ = register_module("norm", torch::nn::BatchNorm1d(6));
    order_ = register_buffer("order", torch::tensor({3, 1, 5, 2, 0, 4}));
  }
  at::Tensor forward(const at::Tensor& input) override {
    return Net::forward(torch::dropout(norm_(input.index_select(1, order_)), 0.05, is_training()));
  }

 private:
  torch::nn::BatchNorm1d norm_{nullptr};
  at::Tensor order_;  // numbers that stay integers in float64
};

class WithAStepOfItsOwn : public Net {
 public:
  Step step(const Batch& batch, const Objective&) override {
    const auto error = (forward(batch.input) - 0.5).square().sum(1);
    return {.loss = error.mean(), .metrics = {{"error", error.detach().sum(), batch.size()}}};
  }
};

TEST(ModelChecks, FindNothingWrongWithGoodModels) {
  EXPECT_THAT(all(test_of<Net>()), IsEmpty());
  EXPECT_THAT(all(test_of<WithNoiseAndStatistics>()), IsEmpty());
  EXPECT_THAT(all(test_of<WithAStepOfItsOwn>()), IsEmpty());
  EXPECT_THAT(all(test_of<Net>({.sample_shape = {6}})), IsEmpty()) << "a model that predicts values";
}

// Has a predict() in place of a forward().
class WithAMask : public Model {
 public:
  void prepare(const DataSpec& data) override {
    net_ = std::make_shared<Net>();
    net_->prepare(data);
    register_module("net", net_);
  }
  at::Tensor predict(const Batch& batch) override { return net_->forward(batch.input * batch.extra("mask")); }

 private:
  std::shared_ptr<Net> net_;
};

TEST(ModelChecks, GiveAModelTheExtrasOfItsData) {
  EXPECT_THAT(all(test_of<WithAMask>({.sample_shape = {6}, .classes = 3, .extras = {{"mask", {6}}}})), IsEmpty());
  EXPECT_THAT(shapes(test_of<WithAMask>({.sample_shape = {6}, .classes = 3, .extras = {{"age", {}}}})),
              HasSubstr("asks for the extra \"mask\" of a batch; the dataset gives age"));
}

// Predicts a class for each of T symbols of two numbers.
class OfSequences : public Model {
 public:
  void prepare(const DataSpec& data) override { layer_ = register_module("layer", torch::nn::Linear(2, data.classes)); }
  at::Tensor forward(const at::Tensor& input) override { return layer_(input); }

 private:
  torch::nn::Linear layer_{nullptr};
};

TEST(ModelChecks, TakeAClassForEachSymbol) {
  auto test = test_of<OfSequences>({.sample_shape = {5, 2}, .classes = 3});
  test.batch = random_batch(test.data, 8);
  test.batch.target = torch::randint(3, {8, 5}, torch::kLong);
  EXPECT_EQ(shapes(test), "");
  EXPECT_EQ(gradients(test), "");
  EXPECT_EQ(ranks_agree(test), "");
}

TEST(ModelChecks, TakeTheTestsOwnBatchAndObjective) {
  auto test = test_of<Net>();
  test.batch = random_batch(kData, 5);
  test.batch.index = at::Tensor();
  test.objective = default_objective(kData);
  EXPECT_THAT(all(test), IsEmpty());
}

// --- shapes

class WithAClassTooFew : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return Net::forward(input).slice(1, 1); }
};

class WithoutABatchDimension : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return Net::forward(input).flatten().slice(0, 1); }
};

class Overflowing : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return (Net::forward(input) * 1e30).exp(); }
};

class NoisyInEvaluation : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return torch::dropout(Net::forward(input), 0.5, true); }
};

class MixingSamples : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return Net::forward(input - input.mean(0)); }
};

class Throwing : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return Net::forward(input.reshape({-1, 7})); }
};

TEST(ModelShapes, AreToldWhereTheyAreNotThose) {
  EXPECT_EQ(shapes(test_of<WithAClassTooFew>()),
            "forward() gives [1, 2] for an input of [1, 6]: expected [1, 3], a number for each class");
  EXPECT_THAT(shapes(test_of<WithoutABatchDimension>()), HasSubstr("the first dimension is that of the samples, 1"));
  EXPECT_THAT(shapes(test_of<Overflowing>()), HasSubstr("NaN or infinite"));
}

TEST(ModelShapes, EvaluationGivesTheSameWhateverTheOtherSamplesAre) {
  EXPECT_THAT(shapes(test_of<NoisyInEvaluation>()), HasSubstr("a different prediction the second time"));
  EXPECT_THAT(shapes(test_of<MixingSamples>()), HasSubstr("depends on the other samples"));
}

TEST(ModelShapes, WhatAMethodThrowsIsToldWithItsName) {
  EXPECT_THAT(shapes(test_of<Throwing>()),
              AllOf(StartsWith("forward() threw: "), HasSubstr("shape '[-1, 7]' is invalid")));
}

// --- parameters

class WithoutParameters : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override { return input.slice(1, 0, 3); }
};

class WithAForgottenLayer : public Net {
 public:
  void prepare(const DataSpec& data) override {
    Net::prepare(data);
    forgotten_ = torch::nn::Linear(6, 6);
  }
  at::Tensor forward(const at::Tensor& input) override { return Net::forward(forgotten_(input)); }

 private:
  torch::nn::Linear forgotten_{nullptr};
};

class WithAnUnusedLayer : public Net {
 public:
  void prepare(const DataSpec& data) override {
    Net::prepare(data);
    register_module("unused", torch::nn::Linear(6, 6));
  }
};

class WithAnInfiniteSlope : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return (Net::forward(input) * 0).sqrt(); }
};

class Detached : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override { return Net::forward(input).detach(); }
};

class WithAGeneratorOfItsOwn : public Net {
 public:
  void prepare(const DataSpec& data) override {
    static double made = 0;
    Net::prepare(data);
    torch::NoGradGuard no_gradients;
    output_->bias.fill_(++made);
  }
};

TEST(ModelParameters, AreAllThatIsTrainedAndAllAreTrained) {
  EXPECT_THAT(parameters(test_of<WithoutParameters>()), HasSubstr("the model has no parameters"));
  EXPECT_THAT(parameters(test_of<WithAForgottenLayer>()),
              AllOf(HasSubstr("does not register"), HasSubstr("register_module()")));
  EXPECT_THAT(parameters(test_of<WithAnUnusedLayer>()), StartsWith("unused.weight gets no gradient"));
  EXPECT_THAT(parameters(test_of<WithAnInfiniteSlope>()), HasSubstr("gets a gradient with NaN or infinite"));
  EXPECT_THAT(parameters(test_of<Detached>()), HasSubstr("not attached to the graph"));
}

TEST(ModelParameters, ComeFromTheSeed) {
  EXPECT_THAT(parameters(test_of<WithAGeneratorOfItsOwn>()), HasSubstr("different numbers in output.bias"));
}

// --- gradients

// Doubles the gradient of what passes through it, as a slip in a hand-written backward would.
struct WrongBackward : torch::autograd::Function<WrongBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

class WithAWrongBackward : public Net {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return output_(WrongBackward::apply(torch::tanh(hidden_(input))));
  }
};

TEST(ModelGradients, AreThoseOfFiniteDifferences) {
  EXPECT_THAT(gradients(test_of<WithAWrongBackward>()),
              AllOf(StartsWith("of hidden.weight backward gives "), HasSubstr("of hidden.bias"),
                    ::testing::Not(HasSubstr("output."))));
}

TEST(ModelChecks, TellWhichOfThemFoundWhat) {
  EXPECT_THAT(all(test_of<Detached>()), ::testing::Contains(StartsWith("parameters: the loss of step()")));
}

}  // namespace
}  // namespace ddprun::check

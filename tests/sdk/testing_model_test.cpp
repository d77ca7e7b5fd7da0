// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good model, which all of them pass, and one model for each thing that they
// find.
#include <ddprun/model.h>
#include <ddprun/testing/model.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun::check {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// --- good ones

class Net : public Model {
 public:
  void prepare(const DataSpec& data) override {
    hidden_ = register_module("hidden", torch::nn::Linear(data.sample_shape.at(0), 8));
    output_ = register_module("output", torch::nn::Linear(8, data.classes > 0 ? data.classes : 2));
  }

  at::Tensor forward(const at::Tensor& input) override { return output_(torch::tanh(hidden_(input))); }

 protected:
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

const DataSpec kData{.sample_shape = {6}, .classes = 3};

template <class Kind>
ModelTest test_of(const DataSpec& data = kData) {
  return {.make = [] { return std::make_shared<Kind>(); }, .data = data};
}

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
  EXPECT_THAT(evaluation(test_of<WithAMask>({.sample_shape = {6}, .classes = 3, .extras = {{"age", {}}}})),
              HasSubstr("asks for the extra \"mask\" of a batch; the dataset gives age"));
}

TEST(ModelChecks, TakeTheTestsOwnBatchAndObjective) {
  class Half final : public Objective {
    at::Tensor loss(const at::Tensor& prediction, const at::Tensor&) const override {
      return (prediction - 0.5).square().mean();
    }
  };
  auto test = test_of<Net>();
  test.batch = random_batch(kData, 5);
  test.batch.index = at::Tensor();
  test.objective = std::make_shared<Half>();
  EXPECT_THAT(all(test), IsEmpty());
}

// --- evaluation

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

TEST(ModelEvaluation, GivesTheSameWhateverTheOtherSamplesAre) {
  EXPECT_THAT(evaluation(test_of<NoisyInEvaluation>()), HasSubstr("is there noise, such as dropout"));
  EXPECT_THAT(evaluation(test_of<MixingSamples>()), HasSubstr("or a mean over the batch"));
  EXPECT_THAT(evaluation(test_of<Throwing>()),
              AllOf(StartsWith("forward() threw: "), HasSubstr("shape '[-1, 7]' is invalid")));
}

// --- parameters

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

TEST(ModelParameters, AreAllThatIsTrainedAndComeFromTheSeed) {
  EXPECT_THAT(parameters(test_of<WithAForgottenLayer>()),
              AllOf(HasSubstr("does not register"), HasSubstr("register_module()")));
  EXPECT_THAT(parameters(test_of<WithAGeneratorOfItsOwn>()), HasSubstr("different numbers in output.bias"));
}

TEST(ModelChecks, TellWhichOfThemFoundWhat) {
  EXPECT_THAT(all(test_of<Detached>()), ::testing::Contains(StartsWith("parameters: the loss of step() is not")));
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
  EXPECT_THAT(gradients(test_of<WithAWrongBackward>()), StartsWith("of hidden.weight backward gives "));
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
  EXPECT_THAT(ranks_agree(test_of<Summing>()), HasSubstr("it must be the mean over the samples"));
  EXPECT_THAT(ranks_agree(test_of<ContrastingInTraining>()), HasSubstr("each apart from the others"));
  EXPECT_THAT(ranks_agree(test_of<MeanMetric>()),
              AllOf(StartsWith("metric error is"), HasSubstr("a sum over the samples")));
}

// Predicts a class for each of T symbols of two numbers.
class OfSequences : public Model {
 public:
  void prepare(const DataSpec& data) override { layer_ = register_module("layer", torch::nn::Linear(2, data.classes)); }
  at::Tensor forward(const at::Tensor& input) override { return layer_(input); }

 private:
  torch::nn::Linear layer_{nullptr};
};

class SilentOnWhatCounts : public OfSequences {
 public:
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = OfSequences::step(batch, objective);
    step.counted = at::Tensor();
    return step;
  }
};

// Divides by the number of those that count, be there none.
class SpoilingWhereNoneCounts : public OfSequences {
 public:
  Step step(const Batch& batch, const Objective&) override {
    const auto counts = batch.target.ne(kIgnoredClass);
    const auto squares = forward(batch.input).square().sum(2);
    return {.loss = (squares * counts).sum() / counts.sum(), .metrics = {}, .counted = counts.sum()};
  }
};

TEST(ModelRanks, TrainTheMeanOverTheSymbolsThatCount) {
  auto test = test_of<OfSequences>({.sample_shape = {5, 2}, .classes = 3});
  test.batch = random_batch(test.data, 8);
  test.batch.target = torch::randint(3, {8, 5}, torch::kLong);
  EXPECT_THAT(all(test), IsEmpty());
  test.make = [] { return std::make_shared<SilentOnWhatCounts>(); };
  EXPECT_THAT(ranks_agree(test), StartsWith("in a batch with targets that do not count the loss of a batch is"));
  test.make = [] { return std::make_shared<SpoilingWhereNoneCounts>(); };
  EXPECT_THAT(ranks_agree(test), StartsWith("in a batch with targets that do not count the gradient of layer.weight"));
}

TEST(ModelRanks, NeedAFewSamples) {
  auto test = test_of<Net>();
  test.batch = random_batch(kData, 2);
  EXPECT_THAT(ranks_agree(test), HasSubstr("at least 3"));
}

}  // namespace
}  // namespace ddprun::check

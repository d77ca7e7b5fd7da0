// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with good models, which all of them pass, and one model for each thing that they
// find.
#include "support/error_of.h"

#include <ddprun/model.h>
#include <ddprun/testing/model.h>

#include <torch/torch.h>

#include <algorithm>
#include <functional>

namespace ddprun::check {
namespace {

const std::vector<std::string> kNothing;
const DataSpec kData{.sample_shape = {6}, .classes = 3};

// Two layers. A fault takes the place of one of its hooks.
class Net : public Model {
 public:
  using Hook = std::function<at::Tensor(Net&, const at::Tensor& input)>;
  std::function<void(Net&)> prepares = [](Net&) {};
  Hook forwards = [](Net& net, const at::Tensor& input) { return net.layers(input); };
  std::function<Step(Net&, const Batch&, const Objective&)> steps =
      [](Net& net, const Batch& batch, const Objective& objective) { return net.Model::step(batch, objective); };

  at::Tensor layers(const at::Tensor& input) { return output(torch::tanh(hidden(input))); }

  void prepare(const DataSpec& data) override {
    hidden = register_module("hidden", torch::nn::Linear(data.sample_shape.at(0), 8));
    output = register_module("output", torch::nn::Linear(8, data.classes > 0 ? data.classes : 2));
    prepares(*this);
  }
  at::Tensor forward(const at::Tensor& input) override { return forwards(*this, input); }
  Step step(const Batch& batch, const Objective& objective) override { return steps(*this, batch, objective); }

  torch::nn::Linear hidden{nullptr}, output{nullptr};
};

using SpoilModel = std::function<void(Net&)>;

ModelTest model_test(const SpoilModel& spoil, const DataSpec& data = kData) {
  return {.make =
              [spoil] {
                auto model = std::make_shared<Net>();
                spoil(*model);
                return model;
              },
          .data = data};
}

SpoilModel forwards(const Net::Hook& hook) {
  return [hook](Net& net) { net.forwards = hook; };
}

// Of the sum of squares of what the model predicts, less a half.
at::Tensor squares(Net& net, const Batch& batch) { return (net.forward(batch.input) - 0.5).square().sum(1); }

void with_noise_and_statistics(Net& net) {
  net.prepares = [](Net& made) {
    torch::nn::BatchNorm1d norm(6);
    made.register_module("norm", norm);
    made.register_buffer("order", torch::tensor({3, 1, 5, 2, 0, 4}));  // stay integers in float64
    made.forwards = [norm](Net& own, const at::Tensor& input) mutable {
      const auto ordered = input.index_select(1, own.named_buffers()["order"]);
      return own.layers(torch::dropout(norm(ordered), 0.05, own.is_training()));
    };
  };
}

void with_a_step_of_its_own(Net& net) {
  net.steps = [](Net& own, const Batch& batch, const Objective&) -> Step {
    const auto error = squares(own, batch);
    return {.loss = error.mean(), .metrics = {{"error", error.detach().sum(), batch.size()}}};
  };
}

TEST(ModelChecks, FindNothingWrongWithGoodModels) {
  for (const SpoilModel& good :
       {SpoilModel([](Net&) {}), SpoilModel(with_noise_and_statistics), SpoilModel(with_a_step_of_its_own)})
    EXPECT_EQ(all(model_test(good)), kNothing);
  EXPECT_EQ(all(model_test([](Net&) {}, {.sample_shape = {6}})), kNothing) << "a model that predicts values";

  class Half final : public Objective {
    at::Tensor loss(const at::Tensor& prediction, const at::Tensor&) const override {
      return (prediction - 0.5).square().mean();
    }
  };
  auto own = model_test([](Net&) {});
  own.batch = random_batch(kData, 5);
  own.batch.index = at::Tensor();
  own.objective = std::make_shared<Half>();
  EXPECT_EQ(all(own), kNothing) << "with the test's own batch and objective";
}

// Has a predict() in place of a forward().
class WithAMask : public Model {
 public:
  void prepare(const DataSpec& data) override {
    net_ = register_module("net", std::make_shared<Net>());
    net_->prepare(data);
  }
  at::Tensor predict(const Batch& batch) override { return net_->forward(batch.input * batch.extra("mask")); }

 private:
  std::shared_ptr<Net> net_;
};

TEST(ModelChecks, GiveAModelTheExtrasOfItsData) {
  const auto test = [](const std::map<std::string, std::vector<int64_t>>& extras) {
    return ModelTest{.make = [] { return std::make_shared<WithAMask>(); },
                     .data = {.sample_shape = {6}, .classes = 3, .extras = extras}};
  };
  EXPECT_EQ(all(test({{"mask", {6}}})), kNothing);
  EXPECT_TRUE(says(evaluation(test({{"age", {}}})), "asks for the extra \"mask\" of a batch; the dataset gives age"));
}

// Doubles the gradient of what passes through it, as a slip in a hand-written backward would.
struct WrongBackward : torch::autograd::Function<WrongBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

std::string gradients_of(const ModelTest& test) { return gradients(test); }

TEST(ModelChecks, FindEachFault) {
  struct Fault {
    std::string (*check)(const ModelTest&);
    SpoilModel spoil;
    std::string words;
  };
  int made = 0;
  const auto mean_of = [](const at::Tensor& tensor) { return tensor.mean(0); };
  const std::vector<Fault> faults{
      {evaluation, forwards([](Net& net, const at::Tensor& x) { return torch::dropout(net.layers(x), 0.5, true); }),
       "is there noise, such as dropout"},
      {evaluation, forwards([=](Net& net, const at::Tensor& x) { return net.layers(x - mean_of(x)); }),
       "or a mean over the batch"},
      {evaluation, forwards([](Net& net, const at::Tensor& x) { return net.layers(x.reshape({-1, 7})); }),
       "forward() threw: ... shape '[-1, 7]' is invalid"},
      {parameters,
       [](Net& net) {
         const auto forgotten = std::make_shared<torch::nn::Linear>(torch::nn::Linear(6, 6));
         net.forwards = [forgotten](Net& own, const at::Tensor& x) { return own.layers((*forgotten)(x)); };
       },
       "does not register ... register_module()"},
      {parameters,
       [&](Net& net) {
         net.prepares = [number = ++made](Net& own) {
           const torch::NoGradGuard no_gradients;
           own.output->bias.fill_(number);
         };
       },
       "different numbers in output.bias"},
      {gradients_of, forwards([](Net& net, const at::Tensor& x) {
         return net.output(WrongBackward::apply(torch::tanh(net.hidden(x))));
       }),
       "of hidden.weight backward gives "},
      {state_round_trip,
       [](Net& net) {
         net.forwards = [seen = 1.0](Net& own, const at::Tensor& x) mutable {
           if (own.is_training()) seen += 1;
           return own.layers(x) * seen;
         };
       },
       "in no checkpoint ... register_buffer()"},
      {state_round_trip,
       [&](Net& net) {
         net.prepares = [name = "buffer" + std::to_string(++made)](Net& own) {
           own.register_buffer(name, torch::zeros({1}));
         };
       },
       "made again, the model has no tensor buffer"},
      {ranks_agree,
       [](Net& net) {
         net.steps = [](Net& own, const Batch& batch, const Objective& objective) {
           auto step = own.Model::step(batch, objective);
           step.loss = step.loss * batch.size();
           return step;
         };
       },
       "it must be the mean over the samples"},
      {ranks_agree,  // nothing is wrong with it in evaluation
       forwards([=](Net& net, const at::Tensor& x) {
         const auto output = net.layers(x);
         return net.is_training() ? output - mean_of(output) : output;
       }),
       "each apart from the others"},
      {ranks_agree,
       [](Net& net) {
         net.steps = [](Net& own, const Batch& batch, const Objective& objective) {
           auto step = own.Model::step(batch, objective);
           step.metrics = {{"error", squares(own, batch).detach().mean(), batch.size()}};
           return step;
         };
       },
       "metric error is ... a sum over the samples"}};
  for (const auto& fault : faults) EXPECT_TRUE(says(fault.check(model_test(fault.spoil)), fault.words));
  const auto detached = all(model_test(forwards([](Net& net, const at::Tensor& x) { return net.layers(x).detach(); })));
  EXPECT_TRUE(std::ranges::any_of(
      detached, [](const auto& problem) { return problem.starts_with("parameters: the loss of step() is not"); }));
  auto few = model_test([](Net&) {});
  few.batch = random_batch(kData, 2);
  EXPECT_TRUE(says(ranks_agree(few), "at least 3"));
}

// Predicts a class for each of T symbols of two numbers.
class OfSequences : public Model {
 public:
  explicit OfSequences(std::function<void(OfSequences&, const Batch&, Step&)> spoil) : spoil_(std::move(spoil)) {}
  void prepare(const DataSpec& data) override { layer_ = register_module("layer", torch::nn::Linear(2, data.classes)); }
  at::Tensor forward(const at::Tensor& input) override { return layer_(input); }
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = Model::step(batch, objective);
    spoil_(*this, batch, step);
    return step;
  }

 private:
  std::function<void(OfSequences&, const Batch&, Step&)> spoil_;
  torch::nn::Linear layer_{nullptr};
};

TEST(ModelRanks, TrainTheMeanOverTheSymbolsThatCount) {
  const auto test = [](const std::function<void(OfSequences&, const Batch&, Step&)>& spoil) {
    ModelTest made{.make = [spoil] { return std::make_shared<OfSequences>(spoil); },
                   .data = {.sample_shape = {5, 2}, .classes = 3}};
    made.batch = random_batch(made.data, 8);
    made.batch.target = torch::randint(3, {8, 5}, torch::kLong);
    return made;
  };
  const std::string where = "in a batch with targets that do not count the ";
  EXPECT_EQ(all(test([](OfSequences&, const Batch&, Step&) {})), kNothing);
  EXPECT_TRUE(says(ranks_agree(test([](OfSequences&, const Batch&, Step& step) { step.counted = at::Tensor(); })),
                   where + "loss of a batch is"));
  const auto divide_by_none = [](OfSequences& model, const Batch& batch, Step& step) {
    const auto counts = batch.target.ne(kIgnoredClass);
    step.loss = (model.forward(batch.input).square().sum(2) * counts).sum() / counts.sum();
    step.metrics.clear();
    step.counted = counts.sum();
  };
  EXPECT_TRUE(says(ranks_agree(test(divide_by_none)), where + "gradient of layer.weight"));
}

}  // namespace
}  // namespace ddprun::check

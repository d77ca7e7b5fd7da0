// SPDX-License-Identifier: MIT
// The model of two players. check::gradients, which compares backward with finite differences of the whole loss,
// cannot agree: what one player's loss would say of the other's weights is detached. check::evaluation cannot either:
// forward() paints the first draws of noise that are kept, so that a sample's image depends on its place in the
// batch.
#include "../../plugins/models/gan/players.h"
#include "models/model_under_test.h"

#include <ddprun/testing.h>

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace ddprun {
namespace {

const DataSpec kGrey{.sample_shape = {1, 8, 8}};
const OptionTexts kFew = {{"noise", "4"}, {"width", "4"}, {"kept", "5"}};

Batch small_batch(int64_t samples) {
  auto batch = check::random_batch(kGrey, samples);
  batch.target = torch::zeros({samples});
  return batch;
}

check::ModelTest small_test() {
  return {.make = [] { return unprepared("gan", kFew); },
          .data = kGrey,
          .batch = small_batch(8),
          .objective = std::make_shared<NoObjective>()};
}

TEST(Gan, KeepsWhatAModelPromises) {
  EXPECT_EQ(check::parameters(small_test()), "");
  EXPECT_EQ(check::state_round_trip(small_test()), "");
  EXPECT_EQ(check::ranks_agree(small_test()), "");
}

TEST(Gan, PaintsTheSameKeptNoiseWhateverTheInputsAre) {
  const auto model = prepared("gan", kGrey, kFew);
  const auto images = model->forward(torch::randn({12, 1, 8, 8}));
  EXPECT_EQ(images.sizes(), at::IntArrayRef({12, 1, 8, 8}));
  EXPECT_TRUE(torch::allclose(images.slice(0, 0, 3), model->forward(torch::zeros({3, 1, 8, 8})), 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(images[1], images[11], 1e-4, 1e-5)) << "five are kept";
  EXPECT_FALSE(torch::allclose(images[0], images[1], 1e-2, 1e-2));
}

TEST(Gan, PaintsInTheRangeOfTheData) {
  auto options = kFew;
  options.insert(options.end(), {{"low", "2"}, {"high", "3"}});
  const auto model = prepared("gan", kGrey, options);
  for (auto& parameter : model->parameters()) parameter.detach().mul_(100);
  const auto images = model->forward(torch::zeros({5, 1, 8, 8}));
  EXPECT_FLOAT_EQ(images.min().item<float>(), 2);
  EXPECT_FLOAT_EQ(images.max().item<float>(), 3);
}

// The mean of one of its metrics, in evaluation, where no noise is drawn.
double metric(Model& model, const Batch& batch, const std::string& name) {
  const torch::NoGradGuard no_gradients;
  for (const auto& sum : model.step(batch, NoObjective()).metrics) {
    if (sum.name == name) return sum.sum.item<double>() / static_cast<double>(sum.count);
  }
  throw std::out_of_range(name);
}

double by_difference(Model& model, const Batch& batch, const std::string& loss, at::Tensor number) {
  constexpr double kStep = 1e-6;
  const double value = number.item<double>();
  number.fill_(value + kStep);
  const double above = metric(model, batch, loss);
  number.fill_(value - kStep);
  const double below = metric(model, batch, loss);
  number.fill_(value);
  return (above - below) / (2 * kStep);
}

TEST(Gan, EachPlayersGradientIsThatOfItsOwnLossAlone) {
  const auto model = prepared("gan", kGrey, kFew);
  model->to(at::kDouble);
  model->eval();
  auto batch = small_batch(6);
  batch.input = batch.input.to(at::kDouble);
  model->step(batch, NoObjective()).loss.backward();
  double largest = 0;
  for (const auto& [name, value] : model->named_parameters().pairs()) {
    const auto own = name.starts_with("generator.") ? "loss_generator" : "loss_discriminator";
    const auto numbers = value.detach().view(-1), gradients = value.grad().view(-1);
    for (int64_t i = 0; i < numbers.numel(); i += 1 + numbers.numel() / 8) {
      const double gradient = gradients[i].item<double>();
      EXPECT_NEAR(gradient, by_difference(*model, batch, own, numbers[i]), 1e-7) << name << " " << i;
      largest = std::max(largest, std::abs(gradient));
    }
  }
  EXPECT_GT(largest, 1e-3);
}

TEST(Gan, JudgingWithDetachedWeightsLeavesExactlyNothingInThem) {
  torch::manual_seed(1);
  gan::Discriminator discriminator({1, 8, 8}, 4, 0);
  const auto images = torch::randn({3, 1, 8, 8}).requires_grad_(), same = images.detach().clone().requires_grad_();
  const auto judged = discriminator.forward(images, gan::Discriminator::Weights::kDetached);
  judged.sum().backward();
  for (const auto& parameter : discriminator.parameters()) EXPECT_FALSE(parameter.grad().defined());
  const auto trained = discriminator.forward(same, gan::Discriminator::Weights::kTrained);
  trained.sum().backward();
  EXPECT_TRUE(torch::equal(judged, trained));
  EXPECT_TRUE(torch::equal(images.grad(), same.grad()));
  for (const auto& parameter : discriminator.parameters()) EXPECT_TRUE(parameter.grad().ne(0).any().item<bool>());
}

// Images whose left half is light and whose right half is dark.
Batch halves(int64_t samples) {
  auto batch = small_batch(samples);
  batch.input = 0.1 * batch.input;
  batch.input.slice(3, 0, 4) += 0.7;
  batch.input.slice(3, 4, 8) -= 0.7;
  return batch;
}

TEST(Gan, LearnsToPaintWhatTheDataShow) {
  torch::set_num_threads(1);  // the layers are small
  const auto model = prepared("gan", kGrey, {{"noise", "4"}, {"width", "8"}});
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(0.002).betas({0.5, 0.999}));
  const auto batch = halves(32);
  const auto distance = [&] {
    const torch::NoGradGuard no_gradients;
    return (model->forward(batch.input).mean(0) - batch.input.mean(0)).square().mean().item<double>();
  };
  const double first = distance();
  for (int step = 0; step < 200; ++step) {
    model->zero_grad();
    model->step(batch, NoObjective()).loss.backward();
    adam.step();
  }
  EXPECT_GT(first, 0.3);  // grey
  EXPECT_LT(distance(), 0.4 * first);
}

}  // namespace
}  // namespace ddprun

#include <ddprun/callback.h>
#include <ddprun/testing.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace {

namespace check = ddprun::check;

// A network of one weight.
struct OneWeight final : ddprun::Model {
  OneWeight() : weight(register_parameter("weight", at::zeros({}))) {}
  at::Tensor forward(const at::Tensor& input) override { return input * weight; }
  at::Tensor weight;
};

// Calls the built plugin as ddprun does in a training of six epochs of two steps, after which the weight is 1, 2, ...,
// 12; after the step `interruption` the run is resumed from a checkpoint. Returns the weight that finish() leaves.
double weight_after_training(int64_t first_epoch, int64_t interruption = 0) {
  const auto make = check::callback_plugin(DDPRUN_PLUGIN, {{"first_epoch", first_epoch}});
  const auto model = std::make_shared<OneWeight>();
  ddprun::Training training{.model = model, .steps_per_epoch = 2, .max_steps = 12, .global_batch = 8};
  auto callback = make();
  callback->start(training);
  for (int64_t step = 1; step <= 12; ++step) {
    model->weight.detach().fill_(step);
    if (step % callback->every() == 0)
      callback->after_step({.epoch = (step + 1) / 2, .step = step, .samples = 8 * step, .loss = at::ones({})});
    if (step != interruption) continue;
    const auto state = callback->state();
    callback = make();
    callback->load_state(state);
    training.step = step;
    callback->start(training);
  }
  callback->finish();
  return model->weight.item<double>();
}

TEST(@class@, LeavesTheMeanOfTheWeightsAtTheEndsOfItsEpochs) {
  EXPECT_EQ(weight_after_training(3), (6 + 8 + 10 + 12) / 4.0);
  EXPECT_EQ(weight_after_training(6), 12);
}

TEST(@class@, GoesOnFromACheckpointAsIfNeverInterrupted) {
  for (int64_t step = 1; step <= 12; ++step) EXPECT_EQ(weight_after_training(3, step), 9) << "resumed after " << step;
}

TEST(@class@, SaysWhichOptionIsWrong) {
  EXPECT_EQ(check::option_problems(DDPRUN_PLUGIN, {{"first_epoch", 0}}),
            "callback.first_epoch: expected int >= 1, found 0");
}

}  // namespace

// SPDX-License-Identifier: MIT
#include "base/log.h"
#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace ddprun {
namespace {

using testing::error_of_training;
using ::testing::HasSubstr;
using testing::same_bits;
using testing::steps_of;
using testing::TempFolder;
using testing::ToyRun;
using testing::train_toy;
using testing::train_toy_twice;

// Asks for what a function says, and counts its calls.
class Asking : public Callback {
 public:
  using Ask = std::function<Requests(const StepDone&)>;
  explicit Asking(Ask ask, int64_t every = 1) : ask_(std::move(ask)), every_(every) {}

  Requests after_step(const StepDone& step) override { return ask_(step); }
  int64_t every() const override { return every_; }

 private:
  Ask ask_;
  int64_t every_;
};

// Sums the weights, halves the lr after each third step, and doubles the weights' mean at the end.
class Averaging : public Callback {
 public:
  void start(const Training& training) override { model_ = training.model; }
  Requests after_step(const StepDone& step) override {
    for (const auto& weight : model_->named_parameters()) {
      auto& sum = sums_[weight.key()];
      sum = sum.defined() ? sum + weight.value().detach() : weight.value().detach().clone();
    }
    factor_ = step.step % 3 == 0 ? factor_ / 2 : factor_;
    return {.lr_factor = factor_};
  }
  void finish() override {
    const at::NoGradGuard no_gradients;
    for (auto& weight : model_->named_parameters()) weight.value().copy_(sums_.at(weight.key()));
  }
  std::map<std::string, at::Tensor> state() const override {
    auto state = sums_;
    state["factor"] = at::scalar_tensor(factor_, at::kDouble);
    return state;
  }
  void load_state(const std::map<std::string, at::Tensor>& state) override {
    sums_ = state;
    factor_ = sums_.extract("factor").mapped().item<double>();
  }

 private:
  std::shared_ptr<Model> model_;
  std::map<std::string, at::Tensor> sums_;
  double factor_ = 1;
};

template <class Kind, class... Arguments>
std::function<std::vector<NamedCallback>()> only(Arguments... arguments) {
  return
      [=]() -> std::vector<NamedCallback> { return {{"own", "callbacks[0]", std::make_shared<Kind>(arguments...)}}; };
}

ToyRun called_back(int64_t ranks = 2) {  // of 9 steps
  ToyRun run{.ranks = ranks};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 1};
  run.experiment.checkpoint.keep = 100;
  return run;
}

TEST(Callbacks, GetWhatTheyAskFor) {
  auto run = called_back();
  run.make_callbacks = only<Asking>([](const StepDone& step) -> Requests {
    if (step.step == 4) return {.evaluate = true};
    if (step.step == 6) return {.lr_factor = 0.25};
    if (step.step == 7) return {.save = true};
    if (step.step == 12) return {.stop = "it is enough"};
    return {};
  });
  const auto result = train_toy(run);
  EXPECT_EQ(steps_of(result.rows, "val"), (std::vector<int64_t>{4, 9, 12}));
  EXPECT_TRUE(std::filesystem::exists(result.own_folder->path() / "checkpoints/step_00000007"));
  const auto lrs = testing::values_of(result.rows, "train", "lr");
  EXPECT_EQ((std::vector<double>{lrs[4], lrs[5], lrs[6], lrs[11]}), (std::vector<double>{0.1, 0.1, 0.025, 0.025}));
  EXPECT_EQ(result.end.status, "stopped_early");
  EXPECT_EQ(result.end.stop_reason, "own: it is enough");
  EXPECT_EQ(result.end.steps, 12);
}

TEST(Callbacks, ThatKeepTensorsResumeWithTheBitsOfTheUndisturbedRun) {
  for (const int64_t ranks : {1, 2}) {
    auto run = called_back(ranks);
    run.make_callbacks = only<Averaging>();
    const auto expected = train_toy(run);
    for (const int64_t stop_at : {1, 5, 9, 24}) {
      const auto found = train_toy_twice(run, stop_at).second;
      EXPECT_TRUE(same_bits(found.weights[0], expected.weights[0])) << ranks << " ranks, stopped at " << stop_at;
      EXPECT_TRUE(same_bits(found.weights.back(), expected.weights[0])) << ranks << " ranks, stopped at " << stop_at;
    }
  }
}

TEST(Callbacks, SeeEachStepThatTheyWantOnce) {
  auto run = called_back(1);
  std::vector<int64_t> seen, epochs;
  std::vector<double> losses;
  run.make_callbacks = only<Asking>(
      [&](const StepDone& step) -> Requests {
        seen.push_back(step.step);
        epochs.push_back(step.epoch);
        losses.push_back(step.loss.item<double>());
        EXPECT_EQ(step.lr, 0.1);
        return {};
      },
      int64_t{9});
  const auto result = train_toy(run);
  EXPECT_EQ(seen, (std::vector<int64_t>{9, 18, 27}));
  EXPECT_EQ(epochs, (std::vector<int64_t>{1, 2, 3}));
  const auto logged = testing::values_of(result.rows, "train", "loss");
  EXPECT_NEAR(losses[1], logged[17], 1e-6);
}

TEST(Callbacks, SeeEvaluationsAndMayStopThere) {
  class Stopping : public Callback {
   public:
    Requests after_evaluation(const EvaluationDone& evaluation) override {
      const bool has_accuracy = evaluation.metrics.size() > 1 && evaluation.metrics[1].first == "val/accuracy";
      return {.stop = evaluation.epoch == 2 && has_accuracy ? "good" : ""};
    }
  };
  auto run = called_back();
  run.make_callbacks = only<Stopping>();
  const auto result = train_toy(run);
  EXPECT_EQ(result.end.steps, 18);
  EXPECT_EQ(result.end.stop_reason, "own: good");
}

TEST(Callbacks, AskedEvaluationThatWasInterruptedIsDoneByTheResumedRun) {
  auto cut = called_back(1);
  cut.make_callbacks = only<Asking>([](const StepDone& step) -> Requests { return {.evaluate = step.step == 4}; });
  auto rest = cut;
  std::atomic<int> asked = 0;
  cut.stop = [&](int64_t, int64_t step) { return step == 4 && ++asked > 1; };  // not after the step: in the evaluation
  const auto first = train_toy(cut);
  EXPECT_EQ(first.end.steps, 4);
  EXPECT_TRUE(steps_of(first.rows, "val").empty());
  rest.resume_from = first.end.checkpoint;
  EXPECT_EQ(steps_of(train_toy(rest).rows, "val"), (std::vector<int64_t>{4, 9, 18, 27}));
}

TEST(Callbacks, ChangeTheWeightsOnceAtTheEndBeforeTheLastCheckpoint) {
  auto run = called_back();
  run.make_callbacks = only<Averaging>();
  const auto first = train_toy(run);
  const auto saved = read_checkpoint(read_checkpoint_info(first.end.checkpoint)).model;
  EXPECT_TRUE(same_bits(saved, first.weights[0]));
  run.resume_from = first.end.checkpoint;
  EXPECT_TRUE(same_bits(train_toy(run).weights[0], first.weights[0])) << "a finished run has nothing left to do";
  EXPECT_EQ(steps_of(first.rows, "val"), (std::vector<int64_t>{9, 18, 27}))
      << "evaluated with the changed weights alone";
}

TEST(Callbacks, ThatStopTheRunAtAnEvaluationHaveTheChangedWeightsEvaluatedToo) {
  class StoppingAverage : public Averaging {
   public:
    Requests after_evaluation(const EvaluationDone&) override { return {.stop = "now"}; }
  };
  auto run = called_back();
  run.make_callbacks = only<StoppingAverage>();
  const auto result = train_toy(run);
  EXPECT_EQ(steps_of(result.rows, "val"), (std::vector<int64_t>{9, 9}));
  const auto losses = testing::values_of(result.rows, "val", "loss");
  EXPECT_NE(losses[0], losses[1]);
  const auto best = std::ranges::find(result.end.best, "val/loss", &NamedValues::value_type::first);
  EXPECT_EQ(best->second, losses[1]) << "the best of the weights that there are";
  EXPECT_TRUE(same_bits(read_checkpoint(read_checkpoint_info(result.end.checkpoint)).model, result.weights[0]));
}

TEST(Callbacks, ThatFailAtTheEndLeaveTheWeightsOfTheLastStep) {
  class Failing : public Callback {
   public:
    void finish() override { throw UserError("no end"); }
  };
  const TempFolder folder;
  auto run = called_back();
  run.folder = folder.path();
  run.experiment.checkpoint.every = {};
  run.make_callbacks = only<Failing>();
  EXPECT_THAT(error_of_training(run), HasSubstr("callbacks[0]: no end"));
  std::vector<CheckpointFlaw> flaws;
  const auto newest = newest_checkpoint(folder.path(), flaws);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 27);
  run.make_callbacks = only<Callback>();
  run.resume_from = newest->path;
  EXPECT_EQ(train_toy(run).end.status, "completed");
}

// Stopped after the last step, with a checkpoint of it, but before its evaluation.
TEST(Callbacks, FinishARunThatWasStoppedRightBefore) {
  auto run = called_back(1);
  run.make_callbacks = only<Averaging>();
  const auto found = train_toy_twice(run, 27).second;
  EXPECT_TRUE(same_bits(found.weights[0], train_toy(run).weights[0]));
  EXPECT_TRUE(same_bits(read_checkpoint(read_checkpoint_info(found.end.checkpoint)).model, found.weights[0]));
}

TEST(Callbacks, ThatAskForDifferentThingsOnTwoRanksAreRefusedByAll) {
  auto run = called_back();
  run.make_callbacks = only<Asking>([](const StepDone& step) -> Requests {
    return {.stop = step.step == 5 && step.loss.item<double>() > 0 ? log::text("loss ", step.loss.item<double>()) : ""};
  });
  EXPECT_THAT(
      error_of_training(run),
      ::testing::AllOf(::testing::StartsWith("callbacks[0]: after_step() must ask for the same on all ranks, but in "
                                             "step 5 rank 0 asks for a stop (loss "),
                       HasSubstr("rank 1 for a stop (loss ")));
}

TEST(Callbacks, FinishOnceMoreWhereARunIsMadeLonger) {
  class Counting : public Callback {
   public:
    explicit Counting(std::atomic<int>* times) : times_(times) {}
    void finish() override { ++*times_; }

   private:
    std::atomic<int>* times_;
  };
  std::atomic<int> times = 0;
  auto run = called_back(1);
  run.make_callbacks = only<Counting>(&times);
  const auto first = train_toy(run);
  run.resume_from = first.end.checkpoint;
  EXPECT_EQ(times, 1);
  train_toy(run);
  EXPECT_EQ(times, 1) << "it had ended";
  run.experiment.trainer.max_epochs = 4;
  EXPECT_EQ(train_toy(run).end.steps, 36);
  EXPECT_EQ(times, 2);
}

TEST(Callbacks, RefuseAFactorThatIsNoneOrAlmostTheSame) {
  auto run = called_back();
  run.make_callbacks = only<Asking>([](const StepDone&) -> Requests { return {.lr_factor = -1.0}; });
  EXPECT_THAT(error_of_training(run), HasSubstr("callbacks[0]: after_step() asks for lr_factor -1"));
  run.make_callbacks = only<Asking>(
      [](const StepDone& step) -> Requests { return {.lr_factor = 0.5 + 1e-12 * step.loss.item<double>()}; });
  EXPECT_THAT(error_of_training(run), HasSubstr("must ask for the same on all ranks"));
}

}  // namespace
}  // namespace ddprun

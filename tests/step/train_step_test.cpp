// SPDX-License-Identifier: MIT
// Whatever a step is cut into, it is the same step.
#include "sharing/out_of_memory.h"
#include "support/error_of.h"
#include "support/toy_run.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

namespace ddprun {
namespace {

using ::testing::AllOf;
using testing::error_of_training;
using ::testing::HasSubstr;
using testing::largest_difference;
using ::testing::Not;
using ::testing::StartsWith;
using testing::ToyModel;
using testing::ToyRun;
using testing::train_toy;
using testing::values_of;

ToyRun each_step_logged(int64_t ranks = 1) {
  ToyRun run{.ranks = ranks};
  run.experiment.seed = 42;
  run.experiment.trainer = {.max_epochs = 3, .global_batch = 12, .log_every = 1};
  return run;
}

double difference_from_whole_batches(const ToyRun& run) {
  auto whole = each_step_logged();
  whole.experiment.trainer = run.experiment.trainer;
  whole.experiment.trainer.micro_batch = 0;
  const auto expected = train_toy(whole);
  const auto result = train_toy(run);
  EXPECT_NEAR(values_of(result.rows, "train", "loss").back(), values_of(expected.rows, "train", "loss").back(), 1e-5);
  return largest_difference(result.weights.back(), expected.weights[0]);
}

using Cut = std::tuple<int64_t, int64_t, int64_t>;  // ranks, devices of each, micro-batch
class Accumulation : public ::testing::TestWithParam<Cut> {};

TEST_P(Accumulation, IsAMeanOverTheGlobalBatchRaggedOnesToo) {
  auto run = each_step_logged(std::get<0>(GetParam()));
  run.devices = std::get<1>(GetParam());
  run.experiment.trainer.micro_batch = std::get<2>(GetParam());
  EXPECT_LT(difference_from_whole_batches(run), 1e-5);
}

// 103 samples in batches of 12: the last one of 7.
INSTANTIATE_TEST_SUITE_P(OfRanks, Accumulation,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Values(0),
                                            ::testing::Values(1, 2, 5, 100)));
INSTANTIATE_TEST_SUITE_P(OfDevices, Accumulation,
                         ::testing::Combine(::testing::Values(1), ::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(0, 1, 5)));

TEST(TrainStep, OneDeviceOfAProcessThatMayHaveMoreTrainsWithTheSameBits) {
  auto run = each_step_logged();
  run.devices = 1;
  EXPECT_TRUE(testing::same_bits(train_toy(run).weights[0], train_toy(each_step_logged()).weights[0]));
}

TEST(TrainStep, DevicesOfOneProcessClipScaleAndAverageAsOneDoes) {
  auto several = each_step_logged(), plain = each_step_logged();
  for (auto* run : {&several, &plain}) {
    auto& trainer = run->experiment.trainer;
    trainer.precision = PrecisionMode::kFp16;
    trainer.loss_scale = 1024;
    trainer.clip_norm = 0.05;
    trainer.ema_decay = 0.9;
  }
  several.devices = 3;
  const auto with = train_toy(several), without = train_toy(plain);
  EXPECT_LT(largest_difference(with.weights[0], without.weights[0]), 1e-3);
  EXPECT_GT(largest_difference(with.weights[0], without.weights[0]), 0);
  EXPECT_EQ(values_of(with.rows, "train", "loss_scale"), values_of(without.rows, "train", "loss_scale"));
  EXPECT_NEAR(values_of(with.rows, "val", "loss").back(), values_of(without.rows, "val", "loss").back(), 1e-3);
}

TEST(TrainStep, ClipsTheNormOfTheGlobalGradientAndReportsItBefore) {
  auto run = each_step_logged(3);
  run.experiment.trainer.clip_norm = 0.05;
  run.experiment.trainer.micro_batch = 2;
  EXPECT_LT(difference_from_whole_batches(run), 1e-5);
  const auto norms = values_of(train_toy(run).rows, "train", "grad_norm");
  ASSERT_FALSE(norms.empty());
  EXPECT_GT(norms.front(), 0.05);
}

TEST(TrainStep, RateFollowsTheSchedule) {
  auto run = each_step_logged(2);
  run.experiment.schedule = {.kind = ScheduleKind::kLinear, .warmup = {.steps = 4}, .warmup_from = 0};
  const auto rates = values_of(train_toy(run).rows, "train", "lr");
  EXPECT_EQ(rates[0], 0);
  EXPECT_DOUBLE_EQ(rates[2], 0.05);
  EXPECT_DOUBLE_EQ(rates[4], 0.1);
  EXPECT_NEAR(rates.back(), 0.1 / 23, 1e-12);  // of 27 steps, 23 go down
}

// The hidden layer at half the rate, the last one's bias in a group of the same rate.
class Grouped : public testing::ToySgd {
 public:
  using ToySgd::ToySgd;
  void start(std::vector<NamedParameter> parameters) override {
    ToySgd::start({parameters[2]});
    const double lr = groups().front().lr;
    groups().push_back({.lr = lr / 2, .parameters = {parameters[0], parameters[1]}});
    groups().push_back({.lr = lr, .parameters = {parameters[3]}});
  }
};

TEST(TrainStep, EachGroupsOwnRateFollowsTheSchedule) {
  auto run = each_step_logged();
  run.make_optimizer = [](double lr) { return std::make_shared<Grouped>(lr); };
  run.experiment.schedule = {.kind = ScheduleKind::kCosine, .warmup = {.steps = 4}, .warmup_from = 0};
  const auto rows = train_toy(run).rows;
  const auto rates = values_of(rows, "train", "lr"), of_group = values_of(rows, "train", "lr_1");
  ASSERT_EQ(rates.size(), of_group.size());
  ASSERT_GT(rates.size(), 10U);
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_DOUBLE_EQ(of_group[i], rates[i] / 2) << i;
  EXPECT_TRUE(values_of(rows, "train", "lr_2").empty()) << "a rate that is there already";
}

TEST(TrainStep, EvaluatesTheAveragedWeightsAndKeepsTraining) {
  auto averaged = each_step_logged(2), plain = each_step_logged(2);
  averaged.experiment.trainer.ema_decay = 0.9;
  const auto with = train_toy(averaged), without = train_toy(plain);
  EXPECT_TRUE(testing::same_bits(with.weights[1], without.weights[1]));
  EXPECT_NE(values_of(with.rows, "val", "loss"), values_of(without.rows, "val", "loss"));
}

TEST(TrainStep, Bf16AutocastStaysNearSinglePrecision) {
  auto half = each_step_logged(2), plain = each_step_logged(2);
  half.experiment.trainer.precision = PrecisionMode::kBf16;
  const auto with = values_of(train_toy(half).rows, "train", "loss");
  const auto without = values_of(train_toy(plain).rows, "train", "loss");
  EXPECT_NE(with, without);
  for (size_t i = 0; i < with.size(); ++i) EXPECT_NEAR(with[i], without[i], 0.02);
}

TEST(TrainStep, CompressedGradientsStayNearTheExactOnes) {
  const auto exact = train_toy(each_step_logged(3)).weights[0];
  for (const auto* compression : {"fp16", "bf16"}) {
    auto run = each_step_logged(3);
    run.experiment.trainer.gradient_compression = enum_of<GradientCompression>(compression).value();
    const auto result = train_toy(run);
    for (const auto& weights : result.weights) EXPECT_TRUE(testing::same_bits(weights, result.weights[0]));
    const auto difference = largest_difference(result.weights[0], exact);
    EXPECT_LT(difference, 0.02) << compression;
    EXPECT_GT(difference, 0) << compression;
  }
}

// Overflows in float16 in one step: its loss is huge there.
class Overflowing : public ToyModel {
 public:
  explicit Overflowing(int64_t at_call) : at_call_(at_call) {}
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = ToyModel::step(batch, objective);
    if (is_training() && calls_++ == at_call_) step.loss = step.loss * 1e38;
    return step;
  }

 private:
  int64_t at_call_, calls_ = 0;
};

TEST(TrainStep, AnOverflowLeavesTheStepOutOnEveryRankAlikeAndTheScheduleWaits) {
  auto run = each_step_logged(2);
  run.experiment.trainer.precision = PrecisionMode::kFp16;
  run.train_samples = 96;  // in batches of one size: nothing is rehearsed
  run.experiment.trainer.loss_scale = 1024;
  run.experiment.schedule = {.kind = ScheduleKind::kLinear};
  std::atomic<int64_t> made = 0;
  // One rank alone overflows, in its sixth call: the fifth step, after the warm-up step.
  run.make_model = [&] { return std::make_shared<Overflowing>(made++ == 0 ? 5 : -1); };
  const auto result = train_toy(run);
  EXPECT_TRUE(testing::same_bits(result.weights[0], result.weights[1]));
  const auto scales = values_of(result.rows, "train", "loss_scale"), rates = values_of(result.rows, "train", "lr");
  EXPECT_EQ(scales[3], 1024);
  EXPECT_EQ(scales[4], 512);
  EXPECT_EQ(scales.back(), 512);
  EXPECT_EQ(rates[5], rates[4]);
  EXPECT_LT(rates[6], rates[5]);
  EXPECT_EQ(values_of(result.rows, "train", "overflows").back(), 1);
}

// Its parameter `now_and_then` has a part in the loss of every second step only.
class Alternating : public ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    now_and_then_ = register_parameter("now_and_then", torch::ones({3}));
  }

  Step step(const Batch& batch, const Objective& objective) override {
    auto step = ToyModel::step(batch, objective);
    if (!is_training()) return step;
    for (const auto& parameter : parameters()) began_without_gradients_ &= !parameter.grad().defined();
    values_.push_back(now_and_then_.detach().clone());
    if (calls_++ % 2 == 0) step.loss = step.loss + 0.01 * now_and_then_.square().sum();
    return step;
  }

  bool began_without_gradients() const { return began_without_gradients_; }
  const std::vector<at::Tensor>& values() const { return values_; }  // before each call

 private:
  at::Tensor now_and_then_;
  int64_t calls_ = 0;
  bool began_without_gradients_ = true;
  std::vector<at::Tensor> values_;
};

TEST(TrainStep, GradientsAreGoneBeforeTheNextAndAParameterWithoutOneStays) {
  for (const int64_t ranks : {1, 2}) {
    auto run = each_step_logged(ranks);
    run.experiment.trainer.find_unused_parameters = ranks > 1;
    std::mutex making;
    std::vector<std::shared_ptr<Alternating>> models;
    run.make_model = [&] {
      const std::scoped_lock lock(making);
      return models.emplace_back(std::make_shared<Alternating>());
    };
    train_toy(run);
    for (const auto& model : models) {
      EXPECT_TRUE(model->began_without_gradients()) << ranks << " ranks";
      const auto& values = model->values();
      ASSERT_GT(values.size(), 6U);
      for (size_t call = 2; call + 1 < values.size(); ++call) {
        const bool moved = !at::equal(values[call], values[call + 1]);
        EXPECT_EQ(moved, call % 2 == 0) << "call " << call << " with " << ranks
                                        << " ranks: momentum alone must move nothing";
      }
    }
  }
}

// Takes the mean of nothing, or detaches it.
class BadLoss : public ToyModel {
 public:
  explicit BadLoss(bool detached) : detached_(detached) {}
  Step step(const Batch& batch, const Objective& objective) override {
    auto step = ToyModel::step(batch, objective);
    step.loss = detached_ ? step.loss.detach() : step.loss.expand({batch.size()});
    return step;
  }

 private:
  bool detached_;
};

TEST(TrainStep, ALossThatIsNoneNamesTheModel) {
  for (const auto& [detached, words] : {std::pair{true, "model: the loss depends on no parameter"},
                                        {false, "model: the loss is [12]: expected one number"}}) {
    auto run = each_step_logged();
    run.train_samples = 96;  // in batches of one size: nothing is rehearsed
    run.experiment.trainer.sanity_batches = 0;
    run.make_model = [detached = detached] { return std::make_shared<BadLoss>(detached); };
    EXPECT_THAT(error_of_training(run), HasSubstr(words));
  }
}

// Has memory for so many samples in one pass of a training, or of an evaluation.
class Narrow : public ToyModel {
 public:
  explicit Narrow(std::function<int64_t()> room, int64_t in_evaluation = 1000)
      : room_(std::move(room)), in_evaluation_(in_evaluation) {}
  explicit Narrow(int64_t room, int64_t in_evaluation = 1000) : Narrow([=] { return room; }, in_evaluation) {}
  at::Tensor forward(const at::Tensor& input) override {
    const auto room = is_training() ? room_() : in_evaluation_;
    TORCH_CHECK_WITH(OutOfMemoryError, input.size(0) <= room, "no room for ", input.size(0), " samples");
    return ToyModel::forward(input);
  }

 private:
  std::function<int64_t()> room_;
  int64_t in_evaluation_;
};

// Of several ranks, or of several devices of a process, the first has room for two samples.
TEST(MicroBatchSearch, FindsWhatFitsOnAllOfThemAndKeepsTheGlobalBatch) {
  for (const auto& [ranks, devices] : {std::pair(2, 0), {1, 2}}) {
    auto run = each_step_logged(ranks);
    const auto whole = train_toy(run);
    run.devices = devices;
    run.experiment.trainer.micro_batch = TrainerConfig::kAutoMicroBatch;
    std::atomic<int64_t> made = 0;
    run.make_model = [&] { return std::make_shared<Narrow>(made++ == 0 ? 2 : 5); };
    EXPECT_LT(largest_difference(train_toy(run).weights[0], whole.weights[0]), 1e-5);
  }
}

// Keeps memory from its first step on, which the model finds taken.
class Hoarding : public testing::ToySgd {
 public:
  Hoarding(double lr, std::atomic<bool>& taken) : ToySgd(lr), taken_(taken) {}
  void step() override {
    ToySgd::step();
    taken_ = true;
  }
  void load_state(const OptimizerState& state) override {
    ToySgd::load_state(state);
    taken_ = !state.empty();
  }

 private:
  std::atomic<bool>& taken_;
};

TEST(MicroBatchSearch, LeavesRoomForWhatTheOptimizerKeepsAndChangesNothing) {
  std::atomic<bool> taken = false;
  auto found = each_step_logged(), known = each_step_logged();
  for (auto* run : {&found, &known}) {
    run->experiment.trainer.ema_decay = 0.9;
    run->make_model = [&] { return std::make_shared<Narrow>([&] { return taken ? 3 : 12; }); };
    run->make_optimizer = [&](double lr) { return std::make_shared<Hoarding>(lr, taken); };
  }
  found.experiment.trainer.micro_batch = TrainerConfig::kAutoMicroBatch;
  known.experiment.trainer.micro_batch = 3;
  const auto result = train_toy(found);
  taken = false;
  EXPECT_TRUE(testing::same_bits(result.weights[0], train_toy(known).weights[0]));
}

TEST(MicroBatchSearch, SaysSoWhereNotEvenOneSampleFits) {
  auto run = each_step_logged();
  run.experiment.trainer.micro_batch = TrainerConfig::kAutoMicroBatch;
  run.make_model = [] { return std::make_shared<Narrow>(0); };
  EXPECT_NE(error_of_training(run), "");
}

TEST(OutOfMemory, NamesWhatToChange) {
  auto run = each_step_logged();
  run.train_samples = 96;  // whole batches: no smaller one is rehearsed
  run.make_model = [] { return std::make_shared<Narrow>(3); };
  const auto error = error_of_training<OutOfMemory>(run);
  EXPECT_THAT(error, AllOf(HasSubstr("out of memory in step 1: no room for 12 samples"),
                           HasSubstr("Besides activations, a worker holds 1.6 kB: weights 780 bytes, gradients 780 "
                                     "bytes, optimizer 0 bytes.\nTry "),
                           HasSubstr("trainer.micro_batch=auto")));
}

TEST(OutOfMemory, OfARehearsalIsReportedAtOnce) {
  auto run = each_step_logged();  // whose last batch is smaller than the others, so it is rehearsed
  run.make_model = [] { return std::make_shared<Narrow>(0); };
  const auto error = error_of_training<OutOfMemory>(run);
  EXPECT_THAT(error, AllOf(StartsWith("out of memory in a trial before the first step: no room for"),
                           HasSubstr("trainer.micro_batch=auto")));
}

TEST(OutOfMemory, OfAnEvaluationNamesItsOwnKey) {
  auto run = each_step_logged();
  run.experiment.trainer.eval_batch = 8;
  run.make_model = [] { return std::make_shared<Narrow>(1000, 2); };
  const auto error = error_of_training<OutOfMemory>(run);
  EXPECT_THAT(error, AllOf(StartsWith("out of memory evaluating the split val: no room for 8 samples"),
                           HasSubstr("trainer.eval_batch=4")));
}

TEST(OutOfMemory, NeverAdvisesWhatIsSetAlready) {
  constexpr auto kAuto = TrainerConfig::kAutoMicroBatch;
  const auto advice = [](const TrainerConfig& config, int64_t found = 0) {
    return advice_for_steps(config, found, /*workers=*/2, /*may_recompute=*/false);
  };
  EXPECT_THAT(advice({}), AllOf(HasSubstr("trainer.micro_batch=auto"), HasSubstr("trainer.shard_optimizer=true")));
  EXPECT_THAT(advice({.micro_batch = 8}), HasSubstr("trainer.micro_batch=4,"));
  EXPECT_THAT(advice({.micro_batch = kAuto}, 8), HasSubstr("trainer.micro_batch=4,"));
  for (const auto& none :
       {advice({.micro_batch = 1}), advice({.micro_batch = kAuto}), advice({.micro_batch = kAuto}, 1)})
    EXPECT_THAT(none, Not(HasSubstr("micro_batch")));
  EXPECT_THAT(advice({.shard_optimizer = true}), Not(HasSubstr("shard_optimizer")));
  EXPECT_THAT(advice_for_steps({}, 0, /*workers=*/1, /*may_recompute=*/true),
              AllOf(HasSubstr("trainer.recompute=all"), Not(HasSubstr("shard_optimizer"))));
}

// Which are computed one after the other already.
TEST(OutOfMemory, AdvisesMoreShardsNotMicroBatches) {
  for (const auto& [shards, more] : {std::pair(4, "trainer.shards=8 "), {8, "trainer.shards=12 "}, {12, ""}}) {
    const auto advice = advice_for_steps({.global_batch = 12, .shards = shards}, 0, 2, false);
    EXPECT_THAT(advice, AllOf(HasSubstr(more), Not(HasSubstr("micro_batch"))));
    EXPECT_EQ(advice.find("trainer.shards") == std::string::npos, shards == 12) << advice;
  }
}

TEST(OutOfMemory, KeepsTheAdviceOfTheNearestPlace) {
  const auto inner = [] { throw std::bad_alloc(); };
  const auto at = [](const std::string& place, const std::string& advice, const auto& work) {
    try {
      work();
    } catch (const std::exception& error) {
      rethrow_with_advice(error, place, advice);
    }
  };
  const auto error = error_of<OutOfMemory>([&] { at("outside", "that", [&] { at("inside", "this", inner); }); });
  EXPECT_EQ(error, "out of memory inside: std::bad_alloc\nTry this.");
}

}  // namespace
}  // namespace ddprun

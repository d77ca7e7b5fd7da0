// SPDX-License-Identifier: MIT
#include "train/train_state.h"

#include "support/error_of.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

TEST(TrainState, SurvivesItsTextBitForBit) {
  TrainState state{.step = 123, .evaluated_step = 100, .samples = 7872};
  state.window = {{.name = "loss", .count = 128}, {.name = "perplexity", .count = 128, .exponential = true}};
  for (const double number : {-1.0 / 3, 0x1p-1074}) state.window[0].sum.add(number);
  state.shards = 8;
  state.threads = 3;
  state.stopper = {.best = 0.1 + 0.2, .evaluations_without_improvement = 2};
  state.schedule = {.reductions = 2, .best = 0.1, .bad_evaluations = 3, .cooling = 1};
  state.scaler = {.scale = 1024, .steps_since_change = 7, .overflows = 6};
  state.skipped = 5;
  state.skips_in_row = 2;
  state.skipped_without_overflow = 4;
  state.best_value = std::nextafter(0.99, 1);
  state.best_metrics = {{"val/loss", std::numeric_limits<double>::infinity()}};
  state.history = {.metric = "val/loss", .values = {{100, 0.1 + 0.2}, {120, std::nan("")}}, .left_out = 3};
  state.last_metrics = {{"val/loss", 0.25}};
  state.seed = UINT64_MAX;
  state.of_features = {{"work", "[128,5764607523034234880,1]"}, {"of_another_build", R"({"kept":true})"}};
  const auto back = TrainState::from_json(state.to_json(), "a test");
  EXPECT_EQ(back.to_json(), state.to_json());
  EXPECT_EQ(back.best_value, state.best_value);
  EXPECT_EQ(back.history.values.at(0), (std::pair<int64_t, double>{100, 0.1 + 0.2}));
  EXPECT_EQ(back.history.left_out, 3);
  EXPECT_EQ(back.window[0].sum.value(), state.window[0].sum.value());
  EXPECT_TRUE(back.window[1].exponential && !back.window[0].exponential);
  EXPECT_EQ(back.seed, UINT64_MAX);
  EXPECT_EQ(back.schedule.best, 0.1);
  for (const auto& [key, value] : state.of_features) EXPECT_EQ(back.of_features.at(key), value);
  EXPECT_EQ(back.scaler.overflows, 6);
}

TEST(TrainState, ForeignTextIsAnErrorThatNamesTheFile) {
  EXPECT_THROW(TrainState::from_json("{}", "x"), UserError);
  EXPECT_THROW(TrainState::from_json("not json", "x"), UserError);
  EXPECT_THROW(TrainState::from_json(R"({"step": "many"})", "x"), UserError);
}

TEST(TrainState, WithoutAnyOfItsValuesIsAnError) {
  const auto whole = nlohmann::json::parse(TrainState().to_json());
  for (const auto& [name, value] : whole.items()) {
    auto part = whole;
    part.erase(name);
    EXPECT_THROW(TrainState::from_json(part.dump(), "x"), UserError) << name;
  }
}

TEST(TrainState, KeepsTheGlobalBatchThatABatchPerWorkerGaveAtTheStart) {
  TrainState state{.global_batch = 200, .batch_per_worker = 100};
  const auto kept = [&](int64_t per_worker, int64_t workers) {
    return state.kept_batch({.global_batch = per_worker * workers, .batch_per_worker = per_worker}, "a checkpoint");
  };
  EXPECT_EQ(kept(100, 2), 200);
  EXPECT_EQ(kept(100, 1), 200);  // another world
  EXPECT_EQ(kept(50, 4), 200);   // the same product
  EXPECT_THROW(kept(50, 2), UserError);
  state.batch_per_worker = 0;  // trainer.global_batch was set
  EXPECT_EQ(kept(50, 4), 200);
  EXPECT_THROW(kept(200, 2), UserError);
}

TEST(TrainState, OfALaterFormatIsAnErrorWithBothFormats) {
  auto text = TrainState().to_json();
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 9");
  EXPECT_EQ(error_of([&] { TrainState::from_json(text, "a checkpoint"); }),
            "a checkpoint: the format of its training state is 9, and this ddprun reads up to 1; use a newer ddprun");
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "comm/replicate.h"
#include "features/histograms/histograms_section.h"
#include "support/toy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using testing::ToyRun;

// Of each event, how often a rank saw all weights, and how often some that had not come yet.
struct Sights {
  std::mutex mutex;
  std::map<std::string, int> settled, old;
};

class Watcher final : public Feature {
 public:
  explicit Watcher(Sights& sights) : sights_(sights) {}

  void start(Loop& loop) override {
    model_ = loop.context.model;
    look_at("start");
  }
  void before_first_step(Loop& /*loop*/) override { look_at("before_first_step"); }
  void before_batch(int64_t /*step*/) override { look_at("before_batch"); }
  Look look(int64_t step) override {
    look_at("look");
    return step == 4 ? Look::kSettled : Look::kNone;
  }
  void before_step(Loop& /*loop*/, const TrainBatch& /*batch*/) override { look_at("before_step"); }
  void computed(Loop& /*loop*/, const TrainBatch& /*batch*/, const StepOutcome* /*outcome*/) override {
    look_at("computed");
  }
  void settled(Loop& /*loop*/) override { look_at("settled"); }
  void add_to_row(const RowSpan& /*span*/, NamedValues& /*values*/) override { look_at("add_to_row"); }
  void after_rows(Loop& /*loop*/) override { look_at("after_rows"); }
  void after_step(Loop& /*loop*/) override { look_at("after_step"); }
  void before_evaluation(Loop& /*loop*/) override { look_at("before_evaluation"); }
  void after_evaluation(Loop& /*loop*/, const NamedValues& /*metrics*/) override { look_at("after_evaluation"); }
  Finish finishes() const override { return finished_ ? Finish::kDone : Finish::kToDo; }
  void finish() override {
    finished_ = true;
    look_at("finish");
  }
  void save(const Loop& /*loop*/, FeatureStates& /*states*/) override { look_at("save"); }
  void at_end(const Loop& /*loop*/, RunEnd& /*end*/) override { look_at("at_end"); }

 private:
  void look_at(const std::string& event) {
    bool all = true;
    for (const auto& weight : model_->parameters()) all = all && at::isfinite(weight.detach()).all().item<bool>();
    std::scoped_lock lock(sights_.mutex);
    ++(all ? sights_.settled : sights_.old)[event];
  }

  Sights& sights_;
  std::shared_ptr<Model> model_;
  bool finished_ = false;
};

std::vector<std::string> names(const std::map<std::string, int>& seen) {
  std::vector<std::string> names;
  for (const auto& [name, count] : seen) names.push_back(name);
  return names;
}

// Rows, saves and evaluations are due at different steps: between them only the step itself gets the weights.
TEST(SettledWeights, AreThereAtTheEventsThatPromiseThem) {
  Sights sights;
  ToyRun run{.ranks = 2};
  run.experiment.trainer = {.max_epochs = 2, .global_batch = 12, .log_every = 3, .shard_optimizer = true};
  run.experiment.checkpoint.every = {.steps = 5};
  run.make_feature = [&] { return std::make_unique<Watcher>(sights); };
  train_toy(run);
  EXPECT_THAT(names(sights.old), ::testing::UnorderedElementsAre("before_batch", "look", "before_step", "computed",
                                                                 "after_rows", "after_step"));
  for (const auto* event : {"start", "before_first_step", "settled", "add_to_row", "before_evaluation",
                            "after_evaluation", "finish", "save", "at_end"})
    EXPECT_GT(sights.settled[event], 0) << event;
}

// With the weights of the step that they are of, which other ranks have stepped: those of a run that shares nothing.
TEST(SettledWeights, HistogramsBetweenRowsAreThoseOfTheirStep) {
  std::map<bool, std::vector<HistogramTable>> seen;
  for (const bool shared : {false, true}) {
    ToyRun run{.ranks = 2};
    run.experiment.trainer = {.max_epochs = 2, .global_batch = 12, .log_every = 100, .shard_optimizer = shared};
    run.experiment.features.set(HistogramsConfig{.every = {.steps = 3}, .bins = 8});
    seen[shared] = train_toy(run).histograms;
  }
  ASSERT_EQ(seen[true].size(), seen[false].size());
  ASSERT_GE(seen[true].size(), 3U);
  for (size_t i = 0; i < seen[true].size(); ++i) {
    ASSERT_EQ(seen[true][i].histograms.size(), seen[false][i].histograms.size());
    for (size_t j = 0; j < seen[true][i].histograms.size(); ++j) {
      const auto &shared = seen[true][i].histograms[j], &whole = seen[false][i].histograms[j];
      EXPECT_EQ(shared.counts, whole.counts) << shared.name << " of step " << seen[true][i].step;
      EXPECT_EQ(shared.edges, whole.edges) << shared.name << " of step " << seen[true][i].step;
    }
  }
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Random lives of one training in shards: its ranks are killed at any step, leave and join, share the optimizer or do
// not, log predictions or do not, and it ends with the bits of one rank that nothing disturbed.
// tests/end_to_end/same_bits_test.py has real processes, and fewer lives.
#include "sharded_toy.h"
#include "support/repetitions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <stdexcept>

namespace ddprun {
namespace {

using testing::sharded;
using testing::TempFolder;
using testing::texts_of;
using testing::ToyResult;
using testing::ToyRun;
using testing::train_toy;

constexpr int64_t kShards = 6, kSteps = 27;

// What a worker that is killed leaves: nothing but the checkpoints that were written before.
class Killed : public std::runtime_error {
 public:
  Killed() : std::runtime_error("killed") {}
};

// The bytes of a file of the last checkpoint.
std::string contents(const ToyResult& result, const std::string& file) {
  std::ifstream in(std::filesystem::path(result.end.checkpoint) / (file + ".safetensors"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class Life {
 public:
  Life(const ToyRun& run, uint64_t seed) : run_(run), chance_(seed) {}

  // Up to four disturbed legs, and one to the end, which it returns.
  ToyResult live() {
    const auto disturbed = draw(1, 4);
    for (int64_t leg = 0; leg < disturbed; ++leg) {
      if (const auto ended = disturbed_leg()) return *ended;
    }
    begin_leg("ends");
    return train_toy(run_);
  }

  const std::string& story() const { return story_; }

 private:
  int64_t draw(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(chance_); }

  void begin_leg(const std::string& what) {
    run_.ranks = draw(1, kShards);
    run_.experiment.trainer.shard_optimizer = draw(0, 1) == 1;
    run_.experiment.predictions.batches = draw(0, 1);
    run_.stop = {};
    std::vector<CheckpointFlaw> flaws;
    const auto newest = newest_checkpoint(run_.folder, flaws);
    run_.resume_from = newest ? newest->path : std::filesystem::path();
    story_ += std::to_string(run_.ranks) + (run_.experiment.trainer.shard_optimizer ? " ranks share" : " ranks") +
              " from step " + std::to_string(newest ? newest->step : 0) + ": " + what +
              (run_.experiment.predictions.batches > 0 ? ", with predictions\n" : "\n");
  }

  // The training's end, if it came before the disturbance.
  std::optional<ToyResult> disturbed_leg() {
    const auto at = draw(1, kSteps);
    const bool killed = draw(0, 1) == 1;
    begin_leg((killed ? "killed at step " : "stopped at step ") + std::to_string(at));
    run_.stop = [at, killed](int64_t, int64_t step) {
      if (killed && step >= at) throw Killed();
      return step >= at;
    };
    try {
      auto result = train_toy(run_);
      if (result.end.status == "completed") return result;
    } catch (const Killed&) {
    }
    return std::nullopt;
  }

  ToyRun run_;
  std::mt19937_64 chance_;
  std::string story_;
};

TEST(RandomSchedules, OfLossesDeparturesAndArrivalsEndWithTheBitsOfOneRankAlone) {
  const TempFolder undisturbed;
  auto run = sharded(undisturbed, kShards);
  run.experiment.checkpoint.every = {.steps = 4};
  const auto whole = train_toy(run);
  ASSERT_EQ(whole.end.steps, kSteps);
  ASSERT_GT(contents(whole, "ema").size(), 1000U);
  const auto [first, end_of_seeds] = testing::seeds(10);
  for (auto seed = first; seed < end_of_seeds; ++seed) {
    const TempFolder folder;
    run.folder = folder.path();
    Life life(run, static_cast<uint64_t>(seed));
    const auto end = life.live();
    const auto story = "DDPRUN_SEED=" + std::to_string(seed) + "\n" + life.story();
    ASSERT_EQ(texts_of(end.rows).back(), texts_of(whole.rows).back()) << story;
    for (const auto* file : {"model", "optimizer", "ema"}) {
      ASSERT_EQ(contents(end, file), contents(whole, file)) << file << "\n" << story;
    }
  }
}

}  // namespace
}  // namespace ddprun

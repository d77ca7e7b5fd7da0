// SPDX-License-Identifier: MIT
#include "runs/folds.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

ListedRun run(const std::string& label, std::vector<std::string> overrides, double best, double started = 1000) {
  ListedRun listed{.label = label, .path = "/outputs/" + label, .overrides = std::move(overrides)};
  listed.state.status = RunStatus::kCompleted;
  listed.state.best_name = "val/accuracy";
  listed.state.best = best;
  listed.state.started = started;
  return listed;
}

TEST(Folds, HaveMeanAndStandardDeviationForEachCombinationOfOtherValues) {
  EXPECT_EQ(folds_text({run("0", {"+dataset.fold=0", "optimizer.lr=0.1", "run.dir=m/0"}, 0.1),
                        run("1", {"+dataset.fold=1", "optimizer.lr=0.1", "run.dir=m/1"}, 0.2),
                        run("2", {"+dataset.fold=2", "optimizer.lr=0.1", "run.dir=m/2"}, 0.3),
                        run("3", {"dataset.fold=0", "optimizer.lr=0.5"}, 0.7),
                        run("4", {"dataset.fold=1", "optimizer.lr=0.5"}, 0.7)}),
            "lr=0.1: val/accuracy 0.2 +- 0.1: mean and standard deviation of 3 folds\n"
            "lr=0.5: val/accuracy 0.7 +- 0: mean and standard deviation of 2 folds\n");
}

TEST(Folds, OfOneFolderAreAloneTogether) {
  EXPECT_EQ(folds_text({run("a/0", {"dataset.fold=0"}, 0.5), run("a/1", {"dataset.fold=1"}, 0.7),
                        run("b/0", {"dataset.fold=0"}, 0.1)}),
            "a: val/accuracy 0.6 +- 0.14: mean and standard deviation of 2 folds\n");
}

TEST(Folds, CountTheNewestRunsThatHaveEnded) {
  auto running = run("3", {"dataset.fold=2"}, 0.9);
  running.state.status = RunStatus::kRunning;
  EXPECT_EQ(folds_text({run("2", {"dataset.fold=1"}, 0.4, 3000), run("0", {"dataset.fold=0"}, 0.2),
                        run("1", {"dataset.fold=1"}, 0.9, 2000), running}),
            "val/accuracy 0.3 +- 0.14: mean and standard deviation of 2 folds\n");
  EXPECT_EQ(folds_text({run("0", {"dataset.fold=0"}, 0.2), run("1", {"optimizer.lr=1"}, 0.3)}), "");
}

}  // namespace
}  // namespace ddprun

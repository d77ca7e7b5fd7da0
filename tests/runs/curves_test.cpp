// SPDX-License-Identifier: MIT
#include "runs/curves.h"

#include "runs/event_list.h"
#include "runs/run_files.h"

#include <cmath>
#include <vector>

namespace ddprun {
namespace {

std::string row(int64_t attempt, const std::string& split, int64_t step, double loss) {
  return R"({"time":)" + std::to_string(1000 + step) + R"(,"attempt":)" + std::to_string(attempt) + R"(,"split":")" +
         split + R"(","epoch":1,"step":)" + std::to_string(step) + R"(,"samples":0,"loss":)" + std::to_string(loss) +
         "}\n";
}

class CurveFiles : public RunFiles {
 protected:
  Curves read_text(const std::string& text) {
    write("metrics.jsonl", text);
    return read_curves(folder_ / "metrics.jsonl", starts_, problems_);
  }

  // {step, value} of a split's loss
  static std::vector<std::pair<int64_t, double>> losses(const Curves& curves, const std::string& split) {
    std::vector<std::pair<int64_t, double>> found;
    for (const auto& curve : curves.curves) {
      if (curve.split != split || curve.name != "loss") continue;
      for (const auto& point : curve.points) found.emplace_back(point.step, point.value);
    }
    return found;
  }

  using Losses = std::vector<std::pair<int64_t, double>>;
  AttemptStarts starts_;
  std::vector<std::string> problems_;
};

TEST_F(CurveFiles, AreOneForEachMetricOfASplit) {
  const auto curves =
      read_text(R"({"time":5,"attempt":0,"split":"train","epoch":1,"step":4,"samples":9,"loss":2,"lr":0.1})"
                "\n"
                R"({"time":6,"attempt":0,"split":"val","epoch":1,"step":4,"samples":9,"loss":3})"
                "\n");
  ASSERT_EQ(curves.curves.size(), 3U);
  EXPECT_EQ(losses(curves, "train"), (Losses{{4, 2}}));
  EXPECT_EQ(losses(curves, "val"), (Losses{{4, 3}}));
  EXPECT_EQ(curves.curves[1].name, "lr");
  EXPECT_EQ(curves.first_time, 5);
  EXPECT_EQ(curves.steps_per_epoch, 4);
  EXPECT_TRUE(problems_.empty());
}

TEST_F(CurveFiles, HaveTheRowsThatCount) {
  struct Case {
    const char* why;
    std::string rows, split;
    Losses losses;
  };
  const std::vector<Case> cases = {
      {"epochs, where these are more than the rows of training",
       row(0, "epoch", 10, 3) + row(0, "epoch", 20, 2) + row(0, "train", 25, 9) + row(0, "epoch", 30, 1),
       "train",
       {{10, 3}, {20, 2}, {30, 1}}},
      {"which are the curve of training then", row(0, "epoch", 10, 3) + row(0, "train", 25, 9), "epoch", {}},
      {"and not where they are fewer",
       row(0, "train", 5, 9) + row(0, "train", 10, 8) + row(0, "epoch", 10, 3),
       "train",
       {{5, 9}, {10, 8}}},
      {"or alone", row(0, "epoch", 10, 3) + row(0, "val", 10, 4), "train", {{10, 3}}},
      {"none that a later attempt took back",
       row(0, "train", 10, 1) + row(0, "train", 20, 2) + row(0, "train", 30, 3) + row(1, "train", 20, 20) +
           row(1, "train", 25, 25),
       "train",
       {{10, 1}, {20, 20}, {25, 25}}},
      {"nor of another split", row(0, "val", 10, 1) + row(0, "val", 30, 3) + row(1, "train", 20, 20), "val", {{10, 1}}},
      {"all of an attempt that a later one continued",
       row(0, "train", 10, 1) + row(0, "test", 10, 1) + row(1, "train", 20, 2) + row(1, "test", 20, 2),
       "test",
       {{10, 1}, {20, 2}}},
      {"the last of one that is there twice",
       row(0, "train", 10, 1) + row(0, "train", 20, 2) + row(0, "train", 10, 5) + row(0, "train", 20, 6),
       "train",
       {{10, 5}, {20, 6}}},
      {"without a word, all but a torn last line",
       row(0, "train", 10, 1) + R"({"time":3,"attempt":0,"spl)",
       "train",
       {{10, 1}}}};
  for (const auto& one : cases) {
    starts_ = {};
    EXPECT_EQ(losses(read_text(one.rows), one.split), one.losses) << one.why;
    EXPECT_TRUE(problems_.empty()) << one.why;
  }
}

TEST_F(CurveFiles, EndWhereAnAttemptWasResumedThatHasNoRowYet) {
  write("events.jsonl", R"({"time":1,"attempt":1,"epoch":1,"step":20,"kind":"resumed","text":"from step 20"})"
                        "\n");
  read_events(folder_ / "events.jsonl", starts_, problems_);
  const auto curves = read_text(row(0, "train", 10, 1) + row(0, "train", 20, 2) + row(0, "train", 30, 3));
  EXPECT_EQ(losses(curves, "train"), (Losses{{10, 1}, {20, 2}}));
}

TEST_F(CurveFiles, HaveNanWhereANumberWasNotFinite) {
  const auto curves =
      read_text(R"({"time":1,"attempt":0,"split":"train","epoch":1,"step":3,"loss":null,"nonfinite":["loss"]})"
                "\n");
  ASSERT_EQ(curves.curves.size(), 1U);
  EXPECT_TRUE(std::isnan(curves.curves[0].points[0].value));
}

TEST_F(CurveFiles, SayTheFirstBrokenLineAndHowManyMore) {
  const auto curves = read_text(row(0, "train", 10, 1) + "garbage\n" + row(0, "train", 20, 2) + "[1]\n\n" +
                                std::string("\0\xff\n", 3) + row(0, "train", 30, 3));
  EXPECT_EQ(losses(curves, "train").size(), 3U);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_EQ(problems_[0], "metrics.jsonl:2: not a JSON object; left out, with 2 more");
}

TEST_F(CurveFiles, AreNoneWithoutAFile) {
  EXPECT_TRUE(read_curves(folder_ / "metrics.jsonl", starts_, problems_).curves.empty());
  EXPECT_TRUE(problems_.empty());
}

TEST(AttemptStarts, TakeTheEarliestOfAllLaterAttempts) {
  AttemptStarts starts;
  starts.saw(0, 1);
  starts.saw(1, 50);
  starts.saw(2, 40);
  starts.saw(1, 10);  // not its first
  EXPECT_EQ(starts.last_step(0), 40);
  EXPECT_EQ(starts.last_step(1), 40);
  EXPECT_TRUE(starts.counts(2, 1'000'000));
  EXPECT_FALSE(starts.counts(0, 41));
}

TEST_F(CurveFiles, ComeWithTheEventsOfTheirRun) {
  std::string text;
  for (int step = 0; step < 600; ++step)
    text += R"({"time":1,"attempt":0,"epoch":1,"step":)" + std::to_string(step) +
            R"(,"kind":"checkpoint","text":"saved"})" + "\n";
  write("events.jsonl", R"({"time":1,"attempt":0,"kind":"failure","text":"rank 1"})"
                        "\n" +
                            text);
  const auto events = read_events(folder_ / "events.jsonl", starts_, problems_);
  ASSERT_EQ(events.size(), 500U);
  EXPECT_EQ(events.front().kind, "failure") << "of very many the checkpoints give way";
  EXPECT_EQ(events.back().step, 599);
  EXPECT_EQ(problems_, std::vector<std::string>{"events.jsonl: of 601 events the report shows 500"});
}

}  // namespace
}  // namespace ddprun

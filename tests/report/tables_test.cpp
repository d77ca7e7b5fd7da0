// SPDX-License-Identifier: MIT
#include "report/tables.h"

#include "runs/run_files.h"
#include "runs/table_index.h"

namespace ddprun {
namespace {

using Json = nlohmann::json;

const std::string kPng = "\x89PNG\r\n\x1a\nrest";

std::string line(const std::string& kind, int64_t attempt, const std::string& split, int64_t step,
                 const Json& content = {}) {
  Json table{{"kind", kind}, {"attempt", attempt}, {"split", split}, {"epoch", 1}, {"step", step}};
  if (content.is_object()) table.update(content);
  return table.dump() + "\n";
}

class Tables : public RunFiles {
 protected:
  TableIndex index(const std::string& text) { return {write("tables.jsonl", text), starts_, problems_}; }

  AttemptStarts starts_;
  std::vector<std::string> problems_;
};

TEST_F(Tables, NewestOfEachSplitIsFoundAndReadAgain) {
  const auto tables =
      index(line("confusion", 0, "val", 10, {{"n", 1}}) + line("predictions", 0, "val", 10) +
            line("confusion", 0, "val", 20, {{"n", 2}}) + line("confusion", 0, "test", 20, {{"n", 3}}) + "{\"kind\"");
  const auto newest = tables.newest("confusion");
  ASSERT_EQ(newest.size(), 2U);
  EXPECT_EQ(newest[0].split, "val");
  EXPECT_EQ(tables.read(newest[0])["n"], 2);
  EXPECT_EQ(tables.read(newest[1])["n"], 3);
  EXPECT_TRUE(problems_.empty());
}

TEST_F(Tables, OfALaterAttemptTakeThePlaceOfTheOthers) {
  starts_.saw(1, 15);  // as the metrics reported
  const auto tables = index(line("confusion", 0, "val", 10, {{"n", 1}}) + line("confusion", 0, "val", 20, {{"n", 2}}));
  ASSERT_EQ(tables.newest("confusion").size(), 1U);
  EXPECT_EQ(tables.newest("confusion")[0].step, 10);
  const auto again = index(line("histograms", 0, "train", 10) + line("histograms", 1, "train", 20) +
                           line("histograms", 1, "train", 20, {{"n", 2}}));
  ASSERT_EQ(again.all("histograms").size(), 2U);
  EXPECT_EQ(again.read(again.all("histograms")[1])["n"], 2);
}

TEST_F(Tables, OfAMissingFileAreNone) {
  EXPECT_TRUE(TableIndex(folder_ / "nowhere", starts_, problems_).all("confusion").empty());
}

TEST(Confusion, HasTotalsAndTheMostConfusedPairs) {
  const auto shown =
      shown_confusion({{"classes", {"cat", "dog", "fox"}}, {"counts", {{5, 1, 0}, {0, 3, 4}, {0, 0, 7}}}});
  EXPECT_EQ(shown["totals"], Json({6, 7, 7}));
  EXPECT_EQ(shown["correct"], 15);
  EXPECT_EQ(shown["pairs"], Json({{1, 2, 4}, {0, 1, 1}}));
  EXPECT_EQ(shown["counts"][1][2], 4);
}

TEST(Confusion, OfVeryManyClassesHasNoCountsButItsPairs) {
  std::vector<std::string> names(300, "x");
  std::vector<std::vector<int64_t>> counts(300, std::vector<int64_t>(300, 0));
  counts[17][23] = 9;
  const auto shown = shown_confusion({{"classes", names}, {"counts", counts}});
  EXPECT_FALSE(shown.contains("counts"));
  EXPECT_EQ(shown["pairs"], Json::array({{17, 23, 9}}));
}

TEST(Confusion, ThatIsNotSquareOrHasNumbersThatAreNoCountsIsRefused) {
  for (const auto* counts : {"[[1, 2]]", "[[1, 2], [3]]", "\"none\"", "[[1, 2], [3, 1e300]]", "[[1, 2], [3, 0.5]]",
                             "[[1, 2], [3, -1]]", "[[1, 2], [3, 9223372036854775807]]"})
    EXPECT_THROW(shown_confusion({{"classes", {"a", "b"}}, {"counts", Json::parse(counts)}}), std::exception) << counts;
}

class Predictions : public RunFiles {
 protected:
  Json shown(const Json& rows, std::vector<std::string> classes = {"a", "b", "c"}) {
    return Json(shown_predictions({{"classes", classes}, {"rows", rows}}, images_));
  }

  ImageShelf images_{folder_};
};

Json prediction(int64_t id, int64_t truth, int64_t guess, std::vector<double> scores) {
  return {{"id", id}, {"truth", truth}, {"guess", guess}, {"scores", std::move(scores)}};
}

TEST_F(Predictions, BeginWithTheSurestMistake) {
  const auto table = shown({prediction(1, 0, 0, {0.6, 0.2, 0.2}), prediction(2, 0, 1, {0.3, 0.6, 0.1}),
                            prediction(3, 2, 0, {0.9, 0.05, 0.05}), prediction(4, 1, 1, {0.1, 0.5, 0.4})});
  std::vector<int64_t> order;
  for (const auto& row : table["rows"]) order.push_back(row["id"]);
  EXPECT_EQ(order, (std::vector<int64_t>{3, 2, 4, 1}));
  EXPECT_EQ(table["rows"][0]["scores"][0], Json::array({0, 0.9}));
  EXPECT_EQ(table["rows"][0]["truth_score"], 0.05);
}

TEST_F(Predictions, OfATaskWithoutClassesAreValues) {
  const auto table = shown(Json::array({{{"id", 5}, {"truth", {1.5, 2}}, {"scores", {1.25, 2.5}}}}), {});
  EXPECT_EQ(table["rows"][0]["truth"], Json({1.5, 2}));
  EXPECT_EQ(table["rows"][0]["values"], Json({1.25, 2.5}));
}

TEST_F(Predictions, HoldTheirImagesAndThoseThatTheModelMade) {
  write("images/val/1.png", kPng);
  write("images/val/1_step_30.png", kPng);
  for (const auto& classes : {std::vector<std::string>{"a"}, std::vector<std::string>{}}) {
    auto row = classes.empty() ? Json{{"id", 1}, {"truth", {3}}, {"scores", {4}}} : prediction(1, 0, 0, {1});
    row.update({{"image", "images/val/1.png"}, {"output", "images/val/1_step_30.png"}});
    const auto seen = shown(Json::array({row}), classes)["rows"][0];
    EXPECT_EQ(seen["image"], "data:image/png;base64,iVBORw0KGgpyZXN0");
    EXPECT_EQ(seen["output"], seen["image"]);
  }
}

TEST_F(Predictions, ShowNoFileFromElsewhereAndNoneThatIsNoImage) {
  write("outside.png", kPng);
  write("run/text.png", "no image");
  std::filesystem::create_symlink(folder_ / "outside.png", folder_ / "run/link.png");
  ImageShelf shelf(folder_ / "run");
  for (const char* path : {"../outside.png", "link.png", "text.png", "missing.png", "", "/etc/passwd"})
    EXPECT_EQ(shelf.data_uri(path), "") << path;
  std::vector<std::string> problems;
  shelf.report(problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_TRUE(problems[0].starts_with("6 images of predictions are missing")) << problems[0];
}

TEST_F(Predictions, LeaveImagesOutBeforeThePageGrowsTooLarge) {
  write("large.png", kPng + std::string(900'000, 'x'));
  for (int i = 0; i < 12; ++i) images_.data_uri("large.png");
  std::vector<std::string> problems;
  images_.report(problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_TRUE(problems[0].starts_with("3 images of predictions are left out")) << problems[0];
}

class Histograms : public Tables {
 protected:
  static Json content(const std::vector<double>& edges, const std::vector<int64_t>& counts) {
    return {{"histograms", Json::array({{{"name", "weights/w"},
                                         {"nonfinite", 2},
                                         {"min", -1},
                                         {"max", 1},
                                         {"mean", 0},
                                         {"stddev", 0.5},
                                         {"edges", edges},
                                         {"counts", counts}}})}};
  }
};

TEST_F(Histograms, AreOneForEachTensorOverTheSteps) {
  const auto shown = shown_histograms(index(line("histograms", 0, "", 10, content({-1, 0, 1}, {3, 4})) +
                                            line("histograms", 0, "", 20, content({-1, 0.5, 1}, {5, 6}))),
                                      problems_);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0]["name"], "weights/w");
  ASSERT_EQ(shown[0]["steps"].size(), 2U);
  EXPECT_EQ(shown[0]["steps"][0]["low"], -1);
  EXPECT_FALSE(shown[0]["steps"][0].contains("edges")) << "evenly spaced";
  EXPECT_EQ(shown[0]["steps"][1]["edges"], Json({-1, 0.5, 1}));
  EXPECT_EQ(shown[0]["steps"][1]["nonfinite"], 2);
}

TEST_F(Histograms, OfManyStepsAreThinnedOutBetweenTheFirstAndTheLast) {
  std::string text;
  for (int64_t step = 1; step <= 500; ++step) text += line("histograms", 0, "", step, content({-1, 0, 1}, {3, 4}));
  const auto shown = shown_histograms(index(text), problems_);
  EXPECT_EQ(shown[0]["steps"].size(), 40U);
  EXPECT_EQ(shown[0]["steps"].front()["step"], 1);
  EXPECT_EQ(shown[0]["steps"].back()["step"], 500);
}

TEST_F(Histograms, WithoutAFiniteNumberHaveNoRange) {
  const auto shown = shown_histograms(index(line("histograms", 0, "", 10, content({}, {}))), problems_);
  EXPECT_FALSE(shown[0]["steps"][0].contains("low"));
  EXPECT_TRUE(problems_.empty());
}

TEST_F(Histograms, ThatContradictThemselvesAreReported) {
  shown_histograms(index(line("histograms", 0, "", 10, content({-1, 1}, {3, 4}))), problems_);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_TRUE(problems_[0].starts_with("tables.jsonl: histograms cannot be shown")) << problems_[0];
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "mlflow/batch.h"
#include "mlflow/history.h"
#include "mlflow/names.h"
#include "mlflow/params.h"
#include "mlflow/spool.h"
#include "mlflow/tables.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace ddprun::mlflow {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(MlflowNames, KeepWhatTheServerTakes) {
  for (const char* name : {"val/accuracy", "a b:c-d.e_f", "größe"}) EXPECT_EQ(legal_name(name), name);
}

TEST(MlflowNames, BecomeLegal) {
  EXPECT_EQ(legal_name("val/f1*"), "val/f1_");
  EXPECT_EQ(legal_name("/a//b/"), "a/b");
  EXPECT_EQ(legal_name("../a/./b"), "__/a/_/b");
  EXPECT_EQ(legal_name(""), "_");
  EXPECT_EQ(legal_name("a\xff"), "a_");
  EXPECT_EQ(legal_name(std::string(300, 'a')).size(), 250U);
}

TEST(MlflowNames, AreCutBetweenCharacters) {
  EXPECT_EQ(cut("aä", 2), "a");
  EXPECT_EQ(cut("aä", 3), "aä");
}

TEST(MlflowNames, TwoThatBecomeOneStayTwo) {
  NameTable names;
  EXPECT_EQ(names.legal("a*b"), "a_b");
  EXPECT_EQ(names.legal("a?b"), "a_b_2");
  EXPECT_EQ(names.legal("a_b"), "a_b_3");
  EXPECT_EQ(names.legal("a*b"), "a_b");
}

TEST(MlflowParams, AreTheExperimentsValuesButForWhereItRan) {
  EXPECT_THAT(params_of("seed: 3\noptimizer: {lr: 0.1, betas: [0.9, 1]}\nlaunch: {workers: 2}\nloggers: [mlflow]\n"),
              ElementsAre(Pair("optimizer.betas", "[0.9, 1]"), Pair("optimizer.lr", "0.1"), Pair("seed", "3")));
}

TEST(MlflowParams, LongValuesAreCut) { EXPECT_EQ(params_of("a: " + std::string(7000, 'x')).at("a").size(), 6000U); }

std::vector<Item> metrics(size_t count, const std::string& key = "m") {
  std::vector<Item> items;
  for (size_t i = 0; i < count; ++i) items.push_back(Item::metric(key, 0.5, 7, static_cast<int64_t>(i)));
  return items;
}

TEST(MlflowBatch, HoldsAThousandMetrics) {
  EXPECT_EQ(first_batch(metrics(1000)).size(), 1000U);
  EXPECT_EQ(first_batch(metrics(1001)).size(), 1000U);
}

TEST(MlflowBatch, HoldsAHundredParamsAndAHundredTags) {
  std::vector<Item> items;
  for (int i = 0; i < 101; ++i) items.push_back(Item::tag("t" + std::to_string(i), "v"));
  EXPECT_EQ(first_batch(items).size(), 100U);
  items.erase(items.begin());
  for (int i = 0; i < 101; ++i) items.push_back(Item::param("p" + std::to_string(i), "v"));
  EXPECT_EQ(first_batch(items).size(), 200U);
}

TEST(MlflowBatch, HoldsAMegabyte) {
  std::vector<Item> items;
  for (int i = 0; i < 90; ++i) items.push_back(Item::param("p" + std::to_string(i), std::string(20'000, 'x')));
  const auto batch = first_batch(items);
  EXPECT_EQ(batch.size(), 44U);
  EXPECT_LE(batch_request("run", batch).size(), 1'000'000U);
}

TEST(MlflowBatch, LongMetricsFitToo) {
  const auto items = metrics(1000, std::string(250, 'k'));
  EXPECT_LE(batch_request("run", first_batch(items)).size(), 1'000'000U);
}

TEST(MlflowBatch, ItemsThatAreTooLargeGoAlone) {
  const std::vector<Item> items{Item::tag("t", std::string(2'000'000, 'x')), Item::tag("u", "v")};
  EXPECT_EQ(first_batch(items).size(), 1U);
}

TEST(MlflowBatch, NumbersThatAreNoneInJsonAreWords) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(metric_value(std::nan("")), "NaN");
  EXPECT_EQ(metric_value(kInfinity), "Infinity");
  EXPECT_EQ(metric_value(-kInfinity), "-Infinity");
  EXPECT_EQ(metric_value(0.1), 0.1);
}

class MlflowSpool : public FolderTest {
 protected:
  std::vector<Json> lines(int64_t from = 0) const {
    SpoolReader reader(file_);
    std::vector<Json> found;
    for (auto line = reader.line_at(from); line; line = reader.line_at(line->end)) found.push_back(line->json);
    return found;
  }

  std::filesystem::path file_ = folder_ / "spool.jsonl";
};

TEST_F(MlflowSpool, KeepsLinesInOrder) {
  SpoolWriter(file_).append({{{"a", 1}}, {{"b", "x\ny"}}});
  SpoolWriter(file_).append({{{"c", 3}}});
  EXPECT_THAT(lines(), ElementsAre(Json{{"a", 1}}, Json{{"b", "x\ny"}}, Json{{"c", 3}}));
}

TEST_F(MlflowSpool, ATornEndIsCutOffByTheNextWriter) {
  for (const std::string& torn : {std::string("{\"b\""), std::string(200'000, 'x')}) {
    write(file_, "{\"a\":1}\n" + torn);
    EXPECT_EQ(lines().size(), 1U);
    SpoolWriter(file_).append({{{"c", 3}}});
    EXPECT_EQ(read(file_), "{\"a\":1}\n{\"c\":3}\n");
  }
}

TEST_F(MlflowSpool, NothingButATornLineIsAnEmptySpool) {
  write(file_, "{\"spo");
  SpoolWriter writer(file_);
  EXPECT_EQ(read(file_), "");
}

TEST_F(MlflowSpool, AReaderSeesWhatIsAppendedLater) {
  SpoolWriter writer(file_);
  SpoolReader reader(file_);
  EXPECT_FALSE(reader.line_at(0));
  writer.append({{{"a", 1}}});
  const auto first = reader.line_at(0);
  ASSERT_TRUE(first);
  EXPECT_FALSE(reader.line_at(first->end));
  writer.append({{{"long", std::string(300'000, 'x')}}});
  EXPECT_EQ(reader.line_at(first->end)->json["long"].get<std::string>().size(), 300'000U);
  EXPECT_EQ(reader.line_at(0)->json["a"], 1);
}

TEST_F(MlflowSpool, ManyLinesAreReadBackEqual) {
  SpoolWriter writer(file_);
  std::vector<Json> written;
  for (int i = 0; i < 40'000; ++i)
    written.push_back({{"number", i}, {"text", std::string(static_cast<size_t>(i % 90), 'x')}});
  writer.append(written);
  EXPECT_EQ(lines(), written);
}

TEST_F(MlflowSpool, ALineThatIsNoneIsPassedOver) {
  write(file_,
        "{\"spool\":\"w\"}\nnonsense\n[1]\n{\"row\":1}\n{\"end\":{}}\n{\"end\":{\"status\":\"KILLED\",\"time\":1}}\n");
  const auto history = read_history(file_, 0);
  EXPECT_EQ(history.spool, "w");
  EXPECT_EQ(history.ended, "KILLED");
}

Json row(const std::string& split, int64_t step) {
  return {{"row", {{"split", split}, {"step", step}, {"time", step * 1000}, {"metrics", Json::object()}}}};
}

TEST_F(MlflowSpool, HistoryKnowsTheRowsThatMayComeAgain) {
  SpoolWriter(file_).append({row("train", 1), row("train", 5), row("val", 5), row("train", 6)});
  const auto history = read_history(file_, 5);
  EXPECT_THAT(history.rows, ElementsAre(Pair("train", 5), Pair("train", 6), Pair("val", 5)));
  EXPECT_EQ(history.last_time_ms, 6000);
}

TEST_F(MlflowSpool, AnotherAttemptHasNotEnded) {
  Json start{
      {"start",
       {{"time", 1}, {"experiment", "e"}, {"run_name", "r"}, {"params", {{"lr", "0.1"}}}, {"tags", Json::object()}}}};
  SpoolWriter(file_).append({start, {{"end", {{"status", "KILLED"}, {"time", 2}}}}});
  EXPECT_EQ(read_history(file_, 0).ended, "KILLED");
  start["start"]["params"]["lr"] = "0.2";
  SpoolWriter(file_).append({start});
  const auto history = read_history(file_, 0);
  EXPECT_EQ(history.ended, "");
  EXPECT_EQ(history.params.at("lr"), "0.1");
}

TEST(MlflowTables, ConfusionHasARowForEachTruth) {
  const auto table = table_of(ConfusionTable{.class_names = {"cat", "dog"}, .counts = {3, 1, 0, 2}});
  EXPECT_EQ(text_of(table), R"({"columns":["truth","cat","dog"],"data":[["cat",3,1],["dog",0,2]]})");
}

TEST(MlflowTables, PredictionsBeginWithTheMistakes) {
  const ShownImage image{.channels = 1, .height = 1, .width = 1, .bytes = {0}};
  PredictionTable table{.split = "val", .class_names = {"cat", "dog"}};
  table.rows = {{.id = 4, .image = image, .guess = 0, .truth = 0, .scores = {0.9, 0.1}},
                {.id = 7, .image = image, .guess = 0, .truth = 1, .scores = {std::nan(""), 0.5}}};
  const auto json = table_of(table);
  EXPECT_EQ(json["columns"], Json::array({"sample", "image", "truth", "guess", "score"}));
  EXPECT_EQ(
      text_of(json["data"][0]),
      R"([7,{"type":"image","filepath":"images/val/7.png","compressed_filepath":"images/val/7.png"},"dog","cat",null])");
  EXPECT_EQ(json["data"][1][4], 0.9);
}

TEST(MlflowTables, AnImageOfTheModelIsInPlaceOfValues) {
  const ShownImage image{.channels = 1, .height = 1, .width = 1, .bytes = {0}};
  PredictionTable table{.split = "val", .step = 30};
  table.rows = {{.id = 7, .image = image, .output = image, .true_values = {2}}};
  const auto json = table_of(table);
  EXPECT_EQ(json["columns"], Json::array({"sample", "image", "output", "truth"}));
  EXPECT_EQ(json["data"][0][2]["filepath"], "images/val/7_step_30.png");
  EXPECT_EQ(json["data"][0][3], Json::array({2.0}));
}

TEST(MlflowTables, ValuesWhereThereAreNoClasses) {
  PredictionTable table;
  table.rows = {{.id = 1, .scores = {0.25}, .true_values = {0.5, 1}}};
  EXPECT_EQ(text_of(table_of(table)), R"({"columns":["sample","truth","predicted"],"data":[[1,[0.5,1.0],[0.25]]]})");
}

}  // namespace
}  // namespace ddprun::mlflow

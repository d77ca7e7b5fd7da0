// SPDX-License-Identifier: MIT
// The loggers that write files, loaded as the runner loads them.
#include "plugin_host/plugin_host.h"
#include "support/error_of.h"

#include <ddprun/file_error.h>
#include <ddprun/logger.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

class FileLoggers : public ::testing::Test {
 protected:
  FileLoggers() {
    std::string name = (std::filesystem::temp_directory_path() / "ddprun_loggers_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~FileLoggers() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<Logger> logger(const std::string& name, int64_t attempt = 0, int64_t resumed_step = 0) const {
    const PluginHost host(plugin_search_path({}));
    auto made = host.make_logger({.plugin = name, .options = Value::map(), .path = "loggers[0]"});
    made->start({.name = "toy", .run_dir = folder_, .attempt = attempt, .resumed_step = resumed_step});
    return made;
  }

  std::vector<std::string> lines(const std::string& file) const {
    std::ifstream stream(folder_ / file);
    std::vector<std::string> result;
    for (std::string line; std::getline(stream, line);) result.push_back(line);
    return result;
  }

  std::filesystem::path folder_;
};

MetricRow row(const std::string& split, int64_t step, std::vector<std::pair<std::string, double>> values) {
  return {.time = 0, .split = split, .epoch = 1, .step = step, .samples = step * 10, .values = std::move(values)};
}

TEST_F(FileLoggers, JsonlHasOneObjectALineAndNamesWhatIsNotFinite) {
  const auto jsonl = logger("jsonl");
  jsonl->metrics(row("train", 5, {{"loss", 0.1}, {"norm", std::numeric_limits<double>::quiet_NaN()}}));
  const auto written = lines("metrics.jsonl");
  ASSERT_EQ(written.size(), 1U);
  const auto object = nlohmann::json::parse(written[0]);
  EXPECT_EQ(object["split"], "train");
  EXPECT_EQ(object["step"], 5);
  EXPECT_EQ(object["samples"], 50);
  EXPECT_EQ(object["loss"], 0.1);
  EXPECT_TRUE(object["norm"].is_null());
  EXPECT_EQ(object["nonfinite"], nlohmann::json::array({"norm"}));
}

TEST_F(FileLoggers, JsonlOfAResumedRunEndsATornLineFirst) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": 1}\n{\"ste";
  logger("jsonl", 1)->metrics(row("train", 2, {{"loss", 0.5}}));
  const auto written = lines("metrics.jsonl");
  ASSERT_EQ(written.size(), 3U);
  EXPECT_EQ(nlohmann::json::parse(written[2])["attempt"], 1);
}

TEST_F(FileLoggers, CsvGetsAColumnForEachMetricAndEmptyCellsElsewhere) {
  const auto csv = logger("csv");
  csv->metrics(row("train", 5, {{"loss", 0.5}}));
  csv->metrics(row("val", 5, {{"loss", 0.25}, {"accuracy", 0.75}}));
  csv->metrics(row("train", 6, {{"loss", 0.125}}));
  EXPECT_EQ(lines("metrics.csv"),
            (std::vector<std::string>{"split,epoch,step,samples,time,loss,accuracy", "train,1,5,50,0,0.5,",
                                      "val,1,5,50,0,0.25,0.75", "train,1,6,60,0,0.125,"}));
}

TEST_F(FileLoggers, CsvOfAResumedRunDropsTheRowsThatComeAgain) {
  {
    const auto first = logger("csv");
    for (int64_t step : {1, 2, 3}) first->metrics(row("train", step, {{"loss", 1.0 / static_cast<double>(step)}}));
  }
  logger("csv", 1, 2)->metrics(row("train", 3, {{"loss", 0.25}}));
  EXPECT_EQ(lines("metrics.csv"), (std::vector<std::string>{"split,epoch,step,samples,time,loss", "train,1,1,10,0,1",
                                                            "train,1,2,20,0,0.5", "train,1,3,30,0,0.25"}));
}

TEST_F(FileLoggers, CsvOfAResumedRunDropsARowThatWasLeftUnfinished) {
  std::ofstream(folder_ / "metrics.csv") << "split,epoch,step,samples,time,loss\ntrain,1,10,100,0,0.5\ntrain,1,1";
  logger("csv", 1, 10);
  EXPECT_EQ(lines("metrics.csv"),
            (std::vector<std::string>{"split,epoch,step,samples,time,loss", "train,1,10,100,0,0.5"}));
}

TEST_F(FileLoggers, AFileThatIsRemovedDuringTheRunIsToldAndBegunAnew) {
  for (const char* name : {"csv", "jsonl"}) {
    const auto file = std::string("metrics.") + name;
    const auto one = logger(name);
    one->metrics(row("train", 1, {{"loss", 0.5}}));
    std::filesystem::remove(folder_ / file);
    EXPECT_THROW(one->metrics(row("train", 2, {{"loss", 0.25}})), FileError);
    one->metrics(row("train", 2, {{"loss", 0.25}}));
    std::filesystem::remove(folder_ / file);
    EXPECT_THROW(one->flush(), FileError);
    one->metrics(row("train", 3, {{"loss", 0.125}}));
  }
  EXPECT_EQ(lines("metrics.csv"),
            (std::vector<std::string>{"split,epoch,step,samples,time,loss", "train,1,3,30,0,0.125"}));
  EXPECT_EQ(lines("metrics.jsonl").size(), 1U);
}

TEST_F(FileLoggers, NamesAreThoseOfNoOtherFileOfTheRun) {
  const PluginHost host(plugin_search_path({}));
  const auto refusal = [&](const std::string& plugin, const std::string& option, const std::string& name) {
    auto options = Value::map();
    options.set(option, Value::scalar(name));
    return error_of([&] { host.make_logger({.plugin = plugin, .options = options, .path = "loggers[0]"}); });
  };
  for (const auto& [plugin, option] : {std::pair("jsonl", "file"), {"jsonl", "tables"}, {"csv", "file"}}) {
    for (const char* name : {"config.yaml", "summary.json", "logs/x", "./run.json", ".lock"})
      EXPECT_THAT(refusal(plugin, option, name), HasSubstr("is written by ddprun, or by a logger")) << name;
    for (const char* name : {"", ".", "..", "../x", "a/../../x", "/tmp/x", "x/"})
      EXPECT_THAT(refusal(plugin, option, name), HasSubstr("expected a name in the run's folder")) << name;
    for (const char* name : {"rows.txt", "rows/train.txt"}) EXPECT_EQ(refusal(plugin, option, name), "");
  }
  EXPECT_THAT(refusal("jsonl", "tables", "metrics.jsonl"), HasSubstr("loggers[0].tables: "));
}

TEST_F(FileLoggers, CsvNumbersReadBackExactly) {
  logger("csv")->metrics(row("train", 1, {{"loss", 0.1 + 0.2}}));
  const auto text = lines("metrics.csv")[1];
  EXPECT_EQ(std::stod(text.substr(text.rfind(',') + 1)), 0.1 + 0.2);
}

ConfusionTable confusion(int64_t step, std::vector<int64_t> counts) {
  return {.split = "val", .epoch = 1, .step = step, .class_names = {"cup, mug", "owl"}, .counts = std::move(counts)};
}

PredictionTable predictions() {
  return {.split = "val",
          .epoch = 1,
          .step = 7,
          .class_names = {"cup, mug", "owl"},
          .rows = {{.id = 3, .guess = 1, .truth = 0, .scores = {0.25, 0.75}}}};
}

TEST_F(FileLoggers, CsvKeepsTheLastConfusionMatrixOfASplitAsATable) {
  const auto csv = logger("csv");
  csv->confusion(confusion(5, {1, 2, 3, 4}));
  csv->confusion(confusion(6, {5, 6, 7, 8}));
  EXPECT_EQ(lines("confusion_val.csv"),
            (std::vector<std::string>{"truth,\"cup, mug\",owl", "\"cup, mug\",5,6", "owl,7,8"}));
}

TEST_F(FileLoggers, CsvNamesAreNoFormulasAndReadBack) {
  const auto csv = logger("csv");
  csv->metrics(row("train", 1, {{"=1+1", -0.5}, {"'@x", 1}, {"-5", 1}}));
  csv->metrics(row("train", 2, {{"=1+1", -0.25}, {"'@x", 2}, {"-5", 1}, {"new", 3}}));  // which reads the head back
  EXPECT_EQ(lines("metrics.csv"), (std::vector<std::string>{"split,epoch,step,samples,time,'=1+1,''@x,-5,new",
                                                            "train,1,1,10,0,-0.5,1,1,", "train,1,2,20,0,-0.25,2,1,3"}));
}

TEST_F(FileLoggers, CsvWritesAFileOfPredictionsForEachStep) {
  logger("csv")->predictions(predictions());
  EXPECT_EQ(
      lines("predictions/step_7.csv"),
      (std::vector<std::string>{"id,image,guess,truth,\"score_cup, mug\",score_owl", "3,,owl,\"cup, mug\",0.25,0.75"}));
}

TEST_F(FileLoggers, CsvIsUtf8WhateverAClassIsCalled) {
  auto matrix = confusion(5, {1, 2, 3, 4});
  matrix.class_names[1] = "H\xf6he";
  const auto csv = logger("csv");
  csv->confusion(matrix);
  EXPECT_EQ(lines("confusion_val.csv")[2], "H\uFFFDhe,3,4");
  auto table = predictions();
  table.class_names[1] = "H\xf6he";
  csv->predictions(table);
  EXPECT_EQ(lines("predictions/step_7.csv")[1], "3,,H\uFFFDhe,\"cup, mug\",0.25,0.75");
}

TEST_F(FileLoggers, CsvPredictionsWithoutClassesAreTheValues) {
  logger("csv")->predictions({.split = "val", .step = 8, .rows = {{.id = 1, .scores = {0.5}, .true_values = {0.75}}}});
  EXPECT_EQ(lines("predictions/step_8.csv"),
            (std::vector<std::string>{"id,image,truth_0,prediction_0", "1,,0.75,0.5"}));
}

TEST_F(FileLoggers, JsonlAppendsTablesToAFileOfTheirOwn) {
  const auto jsonl = logger("jsonl", 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tables.jsonl"));
  jsonl->confusion(confusion(5, {1, 2, 3, 4}));
  jsonl->predictions(predictions());
  const auto written = lines("tables.jsonl");
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(written[0]),
            nlohmann::json::parse(R"({"kind": "confusion", "attempt": 2, "split": "val", "epoch": 1, "step": 5,
                                      "classes": ["cup, mug", "owl"], "counts": [[1, 2], [3, 4]]})"));
  EXPECT_EQ(nlohmann::json::parse(written[1])["rows"],
            nlohmann::json::parse(R"([{"id": 3, "truth": 0, "guess": 1, "scores": [0.25, 0.75]}])"));
}

TEST_F(FileLoggers, JsonlWritesEachSamplesImageOnceAsAPicture) {
  auto table = predictions();
  table.rows[0].image = {.channels = 1, .height = 2, .width = 2, .bytes = {0, 128, 255, 64}};
  const auto jsonl = logger("jsonl");
  jsonl->predictions(table);
  const auto image = nlohmann::json::parse(lines("tables.jsonl")[0])["rows"][0]["image"].get<std::string>();
  EXPECT_EQ(image, "images/val/3.png");
  std::ifstream file(folder_ / image);
  std::string head(26, '\0');
  file.read(head.data(), 26);
  EXPECT_TRUE(head.starts_with("\x89PNG"));
  EXPECT_EQ(head[25], 0) << "PNG's number for grey";
  const auto written = std::filesystem::last_write_time(folder_ / image);
  jsonl->predictions(table);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / image), written);
}

// A sample of which the model makes an image, at two steps.
PredictionTable painted(int64_t step) {
  const ShownImage image{.channels = 1, .height = 1, .width = 2, .bytes = {0, 255}};
  return {.split = "val",
          .step = step,
          .rows = {{.id = 3, .image = image, .output = image, .true_values = {5}}, {.id = 4, .image = image}}};
}

TEST_F(FileLoggers, JsonlWritesTheImageThatAModelMakesOfASampleAtEachStep) {
  const auto jsonl = logger("jsonl");
  jsonl->predictions(painted(7));
  jsonl->predictions(painted(9));
  const auto written = lines("tables.jsonl");
  EXPECT_EQ(nlohmann::json::parse(written[0])["rows"][0],
            nlohmann::json::parse(R"({"id": 3, "truth": [5.0], "scores": [], "image": "images/val/3.png",
                                      "output": "images/val/3_step_7.png"})"));
  EXPECT_FALSE(nlohmann::json::parse(written[0])["rows"][1].contains("output"));
  for (const auto* name : {"3.png", "3_step_7.png", "3_step_9.png", "4.png"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "images/val" / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "images/val/4_step_7.png"));
}

TEST_F(FileLoggers, CsvOfImagesThatAModelMakesHasNoValues) {
  logger("csv")->predictions(painted(8));
  EXPECT_EQ(lines("predictions/step_8.csv")[1], "3,images/val/3.png,5");
}

TEST_F(FileLoggers, JsonlHasHistogramsRanksAndEvents) {
  const auto jsonl = logger("jsonl", 1);
  jsonl->histograms(
      {.epoch = 1, .step = 4, .histograms = {{.name = "weights/w", .count = 3, .edges = {0, 1}, .counts = {3}}}});
  jsonl->ranks({.time = 2, .epoch = 1, .step = 4, .columns = {"rss_bytes"}, .rows = {{5}, {std::nan("")}}});
  jsonl->event({.time = 3, .epoch = 1, .step = 4, .kind = "checkpoint", .text = "step_00000004"});
  const auto written = lines("tables.jsonl");
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(written[0])["histograms"][0]["counts"], nlohmann::json::array({3}));
  EXPECT_EQ(nlohmann::json::parse(written[1])["rows"], nlohmann::json::parse("[[5.0], [null]]"));
  EXPECT_EQ(nlohmann::json::parse(lines("events.jsonl")[0]),
            nlohmann::json::parse(R"({"time": 3.0, "attempt": 1, "epoch": 1, "step": 4, "kind": "checkpoint",
                                      "text": "step_00000004"})"));
}

TEST_F(FileLoggers, CsvReadsAnyNameBackAsItWasWritten) {
  const std::string name = "a, \"b\" 精度";
  logger("csv")->metrics(row("train", 1, {{name, 0.5}}));
  logger("csv", 1, 1)->metrics(row("train", 2, {{name, 0.25}}));
  EXPECT_EQ(lines("metrics.csv"), (std::vector<std::string>{"split,epoch,step,samples,time,\"a, \"\"b\"\" 精度\"",
                                                            "train,1,1,10,0,0.5", "train,1,2,20,0,0.25"}));
}

TEST_F(FileLoggers, TakeNamesAndNumbersOfAnyKindAndEmptyTables) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::string broken = "\xff\xfe\xc3", path = "../a//b/..", two_lines = "up\ndown\r\n";
  for (const auto& name : {std::string(), two_lines, broken, path, std::string(2000, 'n')}) {
    for (const char* plugin : {"csv", "jsonl"}) {
      const auto one = logger(plugin);
      one->metrics(row("train", 1, {{name, nan}, {name + "2", infinity}}));
      one->metrics(row("val", 1, {}));
      one->confusion({.split = "val", .class_names = {name}, .counts = {3}});
      one->confusion({.split = "test"});
      one->predictions({.split = "val", .class_names = {name}, .rows = {{.guess = 0, .truth = 0, .scores = {nan}}}});
      one->predictions({.split = "test"});
      one->histograms({.histograms = {{.name = name, .count = 5, .nonfinite = 5}}});
      one->ranks({.columns = {name}, .rows = {{nan}, {0}}});
      one->event({.kind = "nonfinite", .text = name});
      one->flush();
      one->finish({.status = "failed", .stop_reason = name, .metrics = {{name, nan}}});
    }
  }
}

TEST_F(FileLoggers, CsvIsOfMetricsAlone) {
  const auto csv = logger("csv");
  csv->metrics(row("system", 5, {{"rss_bytes", 1e6}}));
  csv->metrics(row("val", 5, {{"loss", 0.25}}));
  EXPECT_EQ(lines("metrics.csv"),
            (std::vector<std::string>{"split,epoch,step,samples,time,loss", "val,1,5,50,0,0.25"}));
}

// A limit of the file size stands for the full disk.
TEST_F(FileLoggers, ARowThatTheDiskDoesNotTakeIsThereWhenItIsLoggedAgain) {
  for (const char* name : {"csv", "jsonl"}) {
    const auto one = logger(name);
    one->metrics(row("train", 1, {{"loss", 0.5}}));
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, SIG_IGN);
    const auto size = std::filesystem::file_size(folder_ / (std::string("metrics.") + name));
    const rlimit full{size + 10, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
    const auto wider = row("val", 2, {{"accuracy", 0.75}});  // a new column, for which csv writes its file anew
    EXPECT_THROW(one->metrics(wider), FileError);
    EXPECT_THROW(one->metrics(wider), FileError);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, SIG_DFL);
    one->metrics(wider);
  }
  EXPECT_EQ(lines("metrics.csv"), (std::vector<std::string>{"split,epoch,step,samples,time,loss,accuracy",
                                                            "train,1,1,10,0,0.5,", "val,1,2,20,0,,0.75"}));
  ASSERT_EQ(lines("metrics.jsonl").size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(lines("metrics.jsonl")[1])["accuracy"], 0.75);
}

TEST_F(FileLoggers, CsvDoesNotTakeAFileThatCannotBeReadForAnEmptyOne) {
  std::filesystem::create_directory(folder_ / "metrics.csv");
  EXPECT_THROW(logger("csv"), FileError);
}

}  // namespace
}  // namespace ddprun

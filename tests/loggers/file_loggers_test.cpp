// SPDX-License-Identifier: MIT
// The loggers that write files, loaded as the runner loads them.
#include "plugin_host/plugin_host.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <ddprun/file_error.h>
#include <ddprun/logger.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <functional>
#include <limits>

namespace ddprun {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::string kHead = "split,epoch,step,samples,time";

class FileLoggers : public FolderTest {
 protected:
  std::shared_ptr<Logger> logger(const std::string& name, int64_t attempt = 0, int64_t resumed_step = 0) const {
    const PluginHost host(plugin_search_path({}));
    auto made = host.make_logger({.plugin = name, .options = Value::map(), .path = "loggers[0]"});
    made->start({.name = "toy", .run_dir = folder_, .attempt = attempt, .resumed_step = resumed_step});
    return made;
  }

  // The objects of a file, one for each line.
  std::vector<json> objects(const std::string& file) const {
    std::vector<json> found;
    std::istringstream text(read(folder_ / file));
    for (std::string line; std::getline(text, line);) found.push_back(json::parse(line));
    return found;
  }

  void begin_anew() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
};

MetricRow row(const std::string& split, int64_t step, std::vector<std::pair<std::string, double>> values) {
  return {.time = 0, .split = split, .epoch = 1, .step = step, .samples = step * 10, .values = std::move(values)};
}

ConfusionTable confusion(int64_t step, std::vector<int64_t> counts, const std::string& second = "owl") {
  return {.split = "val", .epoch = 1, .step = step, .class_names = {"cup, mug", second}, .counts = std::move(counts)};
}

PredictionTable predictions(const std::string& second = "owl") {
  return {.split = "val",
          .epoch = 1,
          .step = 7,
          .class_names = {"cup, mug", second},
          .rows = {{.id = 3, .guess = 1, .truth = 0, .scores = {0.25, 0.75}}}};
}

// A sample of which the model makes an image.
PredictionTable painted(int64_t step) {
  const ShownImage image{.channels = 1, .height = 1, .width = 2, .bytes = {0, 255}};
  return {.split = "val",
          .step = step,
          .rows = {{.id = 3, .image = image, .output = image, .true_values = {5}}, {.id = 4, .image = image}}};
}

// What is logged, and the file that it makes.
struct Logged {
  const char* what;
  std::function<void(Logger&)> log;
  const char* file;
  std::string text;
};

TEST_F(FileLoggers, CsvMakesATableOfEachKindOfNews) {
  const std::vector<Logged> cases{
      {"a column for each metric, and empty cells elsewhere",
       [](Logger& csv) {
         csv.metrics(row("train", 5, {{"loss", 0.1 + 0.2}}));
         csv.metrics(row("val", 5, {{"loss", 0.25}, {"accuracy", 0.75}}));
         csv.metrics(row("train", 6, {{"loss", 0.125}}));
       },
       "metrics.csv",
       kHead + ",loss,accuracy\ntrain,1,5,50,0,0.30000000000000004,\nval,1,5,50,0,0.25,0.75\ntrain,1,6,60,0,0.125,\n"},
      {"no rows of the machine",
       [](Logger& csv) {
         csv.metrics(row("system", 5, {{"rss_bytes", 1e6}}));
         csv.metrics(row("val", 5, {{"loss", 0.25}}));
       },
       "metrics.csv", kHead + ",loss\nval,1,5,50,0,0.25\n"},
      {"names that are no formulas, and are read back for the new column",
       [](Logger& csv) {
         csv.metrics(row("train", 1, {{"=1+1", -0.5}, {"'@x", 1}, {"-5", 1}}));
         csv.metrics(row("train", 2, {{"=1+1", -0.25}, {"'@x", 2}, {"-5", 1}, {"new", 3}}));
       },
       "metrics.csv", kHead + ",'=1+1,''@x,-5,new\ntrain,1,1,10,0,-0.5,1,1,\ntrain,1,2,20,0,-0.25,2,1,3\n"},
      {"the last confusion matrix of a split",
       [](Logger& csv) {
         csv.confusion(confusion(5, {1, 2, 3, 4}));
         csv.confusion(confusion(6, {5, 6, 7, 8}));
       },
       "confusion_val.csv", "truth,\"cup, mug\",owl\n\"cup, mug\",5,6\nowl,7,8\n"},
      {"predictions", [](Logger& csv) { csv.predictions(predictions()); }, "predictions/step_7.csv",
       "id,image,guess,truth,\"score_cup, mug\",score_owl\n3,,owl,\"cup, mug\",0.25,0.75\n"},
      {"predictions without classes, the values",
       [](Logger& csv) {
         csv.predictions({.split = "val", .step = 8, .rows = {{.id = 1, .scores = {0.5}, .true_values = {0.75}}}});
       },
       "predictions/step_8.csv", "id,image,truth_0,prediction_0\n1,,0.75,0.5\n"},
      {"images that a model makes, without values", [](Logger& csv) { csv.predictions(painted(8)); },
       "predictions/step_8.csv", "id,image,truth_0\n3,images/val/3.png,5\n4,images/val/4.png\n"},
      {"a matrix in UTF-8, whatever a class is called",
       [](Logger& csv) { csv.confusion(confusion(5, {1, 2, 3, 4}, "H\xf6he")); }, "confusion_val.csv",
       "truth,\"cup, mug\",H\uFFFDhe\n\"cup, mug\",1,2\nH\uFFFDhe,3,4\n"},
      {"predictions in UTF-8", [](Logger& csv) { csv.predictions(predictions("H\xf6he")); }, "predictions/step_7.csv",
       "id,image,guess,truth,\"score_cup, mug\",score_H\uFFFDhe\n3,,H\uFFFDhe,\"cup, mug\",0.25,0.75\n"}};
  for (const auto& one : cases) {
    begin_anew();
    one.log(*logger("csv"));
    EXPECT_EQ(read(folder_ / one.file), one.text) << one.what;
  }
}

TEST_F(FileLoggers, JsonlMakesAnObjectOfEachKindOfNews) {
  const std::vector<Logged> cases{
      {"a row, which names what is not finite",
       [](Logger& jsonl) { jsonl.metrics(row("train", 5, {{"loss", 0.1}, {"norm", kNan}})); }, "metrics.jsonl",
       R"({"time": 0.0, "attempt": 2, "split": "train", "epoch": 1, "step": 5, "samples": 50, "loss": 0.1,
           "norm": null, "nonfinite": ["norm"]})"},
      {"a confusion matrix", [](Logger& jsonl) { jsonl.confusion(confusion(5, {1, 2, 3, 4})); }, "tables.jsonl",
       R"({"kind": "confusion", "attempt": 2, "split": "val", "epoch": 1, "step": 5,
           "classes": ["cup, mug", "owl"], "counts": [[1, 2], [3, 4]]})"},
      {"predictions", [](Logger& jsonl) { jsonl.predictions(predictions()); }, "tables.jsonl",
       R"({"kind": "predictions", "attempt": 2, "split": "val", "epoch": 1, "step": 7,
           "classes": ["cup, mug", "owl"], "rows": [{"id": 3, "truth": 0, "guess": 1, "scores": [0.25, 0.75]}]})"},
      {"images that a model makes of a sample", [](Logger& jsonl) { jsonl.predictions(painted(7)); }, "tables.jsonl",
       R"({"kind": "predictions", "attempt": 2, "split": "val", "epoch": 0, "step": 7, "classes": [], "rows": [
           {"id": 3, "truth": [5.0], "scores": [], "image": "images/val/3.png", "output": "images/val/3_step_7.png"},
           {"id": 4, "truth": [], "scores": [], "image": "images/val/4.png"}]})"},
      {"histograms",
       [](Logger& jsonl) {
         jsonl.histograms(
             {.epoch = 1, .step = 4, .histograms = {{.name = "w", .count = 3, .edges = {0, 1}, .counts = {3}}}});
       },
       "tables.jsonl", R"({"kind": "histograms", "attempt": 2, "split": "train", "epoch": 1, "step": 4, "histograms": [
           {"name": "w", "count": 3, "nonfinite": 0, "min": 0.0, "max": 0.0, "mean": 0.0, "stddev": 0.0,
            "edges": [0.0, 1.0], "counts": [3]}]})"},
      {"an event",
       [](Logger& jsonl) { jsonl.event({.time = 3, .epoch = 1, .step = 4, .kind = "checkpoint", .text = "step_4"}); },
       "events.jsonl",
       R"({"time": 3.0, "attempt": 2, "epoch": 1, "step": 4, "kind": "checkpoint", "text": "step_4"})"}};
  for (const auto& one : cases) {
    begin_anew();
    one.log(*logger("jsonl", 2));
    EXPECT_EQ(objects(one.file), std::vector{json::parse(one.text)}) << one.what;
    EXPECT_EQ(std::filesystem::exists(folder_ / "tables.jsonl"), one.file == std::string("tables.jsonl"));
  }
}

TEST_F(FileLoggers, AResumedRunEndsATornLineFirstAndDropsFromCsvWhatComesAgain) {
  write(folder_ / "metrics.jsonl", "{\"step\": 1}\n{\"ste");
  write(folder_ / "metrics.csv", kHead + ",loss\ntrain,1,1,10,0,1\ntrain,1,2,20,0,0.5\ntrain,1,3,30,0,0.3\ntrain,1,1");
  for (const char* name : {"jsonl", "csv"}) logger(name, 1, 2)->metrics(row("train", 3, {{"loss", 0.25}}));
  EXPECT_THAT(read(folder_ / "metrics.jsonl"),
              ::testing::StartsWith("{\"step\": 1}\n{\"ste\n{\"time\":0.0,\"attempt\":1"));
  EXPECT_EQ(read(folder_ / "metrics.csv"),
            kHead + ",loss\ntrain,1,1,10,0,1\ntrain,1,2,20,0,0.5\ntrain,1,3,30,0,0.25\n");
}

TEST_F(FileLoggers, CsvReadsAnyNameBackAsItWasWritten) {
  const std::string name = "a, \"b\" 精度";
  logger("csv")->metrics(row("train", 1, {{name, 0.5}}));
  logger("csv", 1, 1)->metrics(row("train", 2, {{name, 0.25}}));
  EXPECT_EQ(read(folder_ / "metrics.csv"), kHead + ",\"a, \"\"b\"\" 精度\"\ntrain,1,1,10,0,0.5\ntrain,1,2,20,0,0.25\n");
}

TEST_F(FileLoggers, AFileThatIsRemovedDuringTheRunIsReportedAndBegunAnew) {
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
  EXPECT_EQ(read(folder_ / "metrics.csv"), kHead + ",loss\ntrain,1,3,30,0,0.125\n");
  EXPECT_EQ(objects("metrics.jsonl").size(), 1U);
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

TEST_F(FileLoggers, JsonlWritesASamplesImageOnceAndWhatTheModelMakesOfItAtEachStep) {
  const auto jsonl = logger("jsonl");
  jsonl->predictions(painted(7));
  const auto png = read(folder_ / "images/val/3.png");
  EXPECT_TRUE(png.starts_with("\x89PNG"));
  EXPECT_EQ(png[25], 0) << "PNG's number for grey";
  write(folder_ / "images/val/3.png", "kept");
  jsonl->predictions(painted(9));
  EXPECT_EQ(read(folder_ / "images/val/3.png"), "kept");
  for (const auto* name : {"3_step_7.png", "3_step_9.png", "4.png"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "images/val" / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "images/val/4_step_7.png"));
}

TEST_F(FileLoggers, TakeNamesAndNumbersOfAnyKindAndEmptyTables) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string broken = "\xff\xfe\xc3", path = "../a//b/..", two_lines = "up\ndown\r\n";
  for (const auto& name : {std::string(), two_lines, broken, path, std::string(2000, 'n')}) {
    for (const char* plugin : {"csv", "jsonl"}) {
      const auto one = logger(plugin);
      one->metrics(row("train", 1, {{name, kNan}, {name + "2", infinity}}));
      one->metrics(row("val", 1, {}));
      one->confusion({.split = "val", .class_names = {name}, .counts = {3}});
      one->confusion({.split = "test"});
      one->predictions({.split = "val", .class_names = {name}, .rows = {{.guess = 0, .truth = 0, .scores = {kNan}}}});
      one->predictions({.split = "test"});
      one->histograms({.histograms = {{.name = name, .count = 5, .nonfinite = 5}}});
      one->event({.kind = "nonfinite", .text = name});
      one->flush();
      one->finish({.status = "failed", .stop_reason = name, .metrics = {{name, kNan}}});
    }
  }
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
  EXPECT_EQ(read(folder_ / "metrics.csv"), kHead + ",loss,accuracy\ntrain,1,1,10,0,0.5,\nval,1,2,20,0,,0.75\n");
  ASSERT_EQ(objects("metrics.jsonl").size(), 2U);
  EXPECT_EQ(objects("metrics.jsonl")[1]["accuracy"], 0.75);
}

TEST_F(FileLoggers, CsvDoesNotTakeAFileThatCannotBeReadForAnEmptyOne) {
  std::filesystem::create_directory(folder_ / "metrics.csv");
  EXPECT_THROW(logger("csv"), FileError);
}

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
// The logger as the runner loads it, before a server that misbehaves.
#include "plugin_host/plugin_host.h"

#include <ddprun/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <regex>
#include <set>

#include "fake_mlflow.h"
#include "launch/temporary_folder.h"

namespace ddprun {
namespace {

using nlohmann::json;
using test::FakeMlflow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Answer = FakeMlflow::Answer;
using Request = FakeMlflow::Request;

constexpr const char* kVariables[] = {"MLFLOW_TRACKING_URI",      "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_USERNAME",
                                      "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN",  "http_proxy"};

class MlflowLogger : public FolderTest {
 protected:
  MlflowLogger() {
    for (const char* name : kVariables) unsetenv(name);
    write(run_dir_ / "config.yaml", "optimizer: {lr: 0.1}\n");
    write(run_dir_ / "environment.json", R"({"git": {"sha": "abc"}, "arguments": ["ddprun", "toy.yaml"]})");
    options_.set("uri", Value::scalar(server_.uri()));
    options_.set("timeout", Value::scalar("1"));
    testing::internal::CaptureStderr();
  }
  ~MlflowLogger() override {
    if (!told_) testing::internal::GetCapturedStderr();
    for (const char* name : kVariables) unsetenv(name);
  }

  std::shared_ptr<Logger> make() const {
    return PluginHost(plugin_search_path({}))
        .make_logger({.plugin = "mlflow", .options = options_, .path = "loggers[0]"});
  }

  std::shared_ptr<Logger> started(RunStart run = {}) const {
    const auto logger = make();
    run.name = "toy";
    run.run_dir = run_dir_;
    if (run.config_yaml.empty()) run.config_yaml = "optimizer: {lr: 0.1}\n";
    run.world_size = 2;
    logger->start(run);
    return logger;
  }

  static void log(Logger& logger, int64_t step, const std::string& name = "loss") {
    logger.metrics(
        {.time = static_cast<double>(step), .split = "train", .epoch = 1, .step = step, .values = {{name, 0.5}}});
  }

  // Of train/<name>, in the order in which they came.
  std::vector<int64_t> steps(const std::string& name = "loss") {
    std::vector<int64_t> found;
    for (const auto& metric : server_.run().metrics) {
      if (metric["key"] == "train/" + name) found.push_back(metric["step"]);
    }
    return found;
  }

  bool has_step(int64_t step) {
    return server_.wait_for([&] {
      for (const auto& [id, run] : server_.runs) {
        for (const auto& metric : run.metrics) {
          if (metric["step"] == step) return true;
        }
      }
      return false;
    });
  }

  // What was printed so far; once.
  std::string told() {
    told_ = true;
    return testing::internal::GetCapturedStderr();
  }

  static int64_t warnings(const std::string& text) {
    const std::regex warning("ddprun: warning: logger mlflow: ");
    return std::distance(std::sregex_iterator(text.begin(), text.end(), warning), {});
  }

  std::string problem_of_options() const try {
    make();
    return "";
  } catch (const UserError& error) {
    return error.what();
  }

  static std::string problem_of_upload(Logger& logger, const std::filesystem::path& run_dir) try {
    logger.upload(run_dir, {.status = "failed"});
    return "";
  } catch (const UserError& error) {
    return error.what();
  }

  FakeMlflow server_;
  Value options_ = Value::map();
  std::filesystem::path run_dir_ = folder_ / "run";
  bool told_ = false;
};

bool is_batch(const Request& request) { return request.path.ends_with("runs/log-batch"); }
bool holds(const Request& request, const std::string& text) { return request.body.find(text) != std::string::npos; }

TEST_F(MlflowLogger, ARunArrivesWhole) {
  const auto logger = started({.device = "cpu"});
  logger->metrics({.time = 1.5, .split = "val", .step = 7, .values = {{"loss", 0.25}, {"bad", std::nan("")}}});
  write(run_dir_ / "summary.json", "{}");
  write(run_dir_ / "logs/rank_0.log", "hello\n");
  logger->finish({.status = "stopped_early", .stop_reason = "enough", .steps = 7, .best = {{"val/loss", 0.25}}});
  const auto& run = server_.run();
  EXPECT_EQ(server_.experiments.at("toy"), run.experiment);
  EXPECT_EQ(run.name, "run");
  EXPECT_EQ(run.status, "FINISHED");
  EXPECT_TRUE(run.end_time.is_number());
  EXPECT_EQ(run.params.at("optimizer.lr"), "0.1");
  EXPECT_EQ(run.tags.at("mlflow.source.git.commit"), "abc");
  EXPECT_EQ(run.tags.at("mlflow.source.name"), "toy.yaml");
  EXPECT_EQ(run.tags.at("ddprun.world_size"), "2");
  EXPECT_EQ(run.tags.at("ddprun.stop_reason"), "enough");
  ASSERT_EQ(run.metrics.size(), 3U);
  EXPECT_EQ(run.metrics[0], (json{{"key", "val/loss"}, {"value", 0.25}, {"timestamp", 1500}, {"step", 7}}));
  EXPECT_EQ(run.metrics[1], (json{{"key", "val/bad"}, {"value", "NaN"}, {"timestamp", 1500}, {"step", 7}}));
  EXPECT_EQ(run.metrics[2]["key"], "best/val/loss");
  const auto folder = run.experiment + "/r0/artifacts/";
  EXPECT_EQ(server_.artifacts.at(folder + "config.yaml"), "optimizer: {lr: 0.1}\n");
  EXPECT_EQ(server_.artifacts.at(folder + "logs/rank_0.log"), "hello\n");
  EXPECT_EQ(server_.artifacts.at(folder + "summary.json"), "{}");
  EXPECT_EQ(warnings(told()), 0);
}

TEST_F(MlflowLogger, StatusSaysHowTheRunEnded) {
  for (const auto& [status, expected] :
       {std::pair("completed", "FINISHED"), {"preempted", "KILLED"}, {"failed", "FAILED"}}) {
    started()->finish({.status = status});
    EXPECT_EQ(server_.run().status, expected);
  }
}

TEST_F(MlflowLogger, AServerThatIsAwayIsOneWarningAndLosesNothing) {
  server_.go_away();
  const auto logger = started();
  for (int64_t step = 1; step <= 3; ++step) log(*logger, step);
  server_.come_back();
  ASSERT_TRUE(has_step(3));
  server_.go_away();
  for (int64_t step = 4; step <= 6; ++step) log(*logger, step);
  server_.come_back();
  ASSERT_TRUE(has_step(6));
  logger->finish({.status = "completed"});
  const auto found = steps();  // a step whose answer did not come through comes twice
  EXPECT_THAT(std::set(found.begin(), found.end()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(server_.run().status, "FINISHED");
  EXPECT_LE(warnings(told()), 2);
}

TEST_F(MlflowLogger, ATroubledServerIsAskedAgain) {
  for (const int status : {500, 502, 503, 429, 408, 401, 403}) {
    auto left = std::make_shared<int>(1);
    server_.set_mood([=](const Request& request) -> std::optional<Answer> {
      const bool troubled = is_batch(request) && holds(request, "train/loss") && *left > 0;
      if (status == 401 || status == 403 ? *left > 0 && is_batch(request) : troubled) {
        --*left;
        return Answer{.status = status, .body = R"({"message": "not now"})"};
      }
      return std::nullopt;
    });
    const auto logger = started();
    log(*logger, status);
    ASSERT_TRUE(has_step(status)) << status;
    logger->finish({.status = "completed"});
    EXPECT_FALSE(exists(run_dir_ / "mlflow/refused.jsonl")) << status;
  }
  const auto text = told();
  EXPECT_EQ(warnings(text), 7) << text;
  EXPECT_THAT(text, HasSubstr(server_.uri() + ": HTTP 503: not now; the training goes on"));
}

TEST_F(MlflowLogger, ASocketThatHangsIsGivenUp) {
  auto asked = std::make_shared<int>(0);
  server_.set_mood([=](const Request& request) -> std::optional<Answer> {
    return is_batch(request) && ++*asked == 2 ? std::optional(FakeMlflow::silence()) : std::nullopt;
  });
  const auto logger = started();
  log(*logger, 1);
  ASSERT_TRUE(has_step(1));
  logger->finish({.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1));
  EXPECT_EQ(warnings(told()), 1);
}

TEST_F(MlflowLogger, TheEndDoesNotWaitForAServerThatHangs) {
  options_.set("timeout", Value::scalar("600"));
  server_.set_mood([](const Request&) { return FakeMlflow::silence(); });
  {
    const auto logger = started();
    log(*logger, 1);
    logger->finish({.status = "completed"});  // comes back although no answer does
  }
  EXPECT_TRUE(server_.runs.empty());
  EXPECT_THAT(told(), HasSubstr("`ddprun upload " + run_dir_.string() + "` sends the rest"));
  server_.set_mood(nullptr);
  make()->upload(run_dir_, {.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1));
  EXPECT_EQ(server_.run().status, "FINISHED");
}

TEST_F(MlflowLogger, WhatTheServerRefusesIsSetAsideAndTheRestGoesOn) {
  server_.set_mood([](const Request& request) -> std::optional<Answer> {
    if (is_batch(request) && holds(request, "train/bad"))
      return Answer{.status = 400, .body = R"({"error_code": "INVALID_PARAMETER_VALUE", "message": "bad is bad"})"};
    return std::nullopt;
  });
  const auto logger = started();
  for (int64_t step = 1; step <= 9; ++step) {
    log(*logger, step);
    if (step % 3 == 0) log(*logger, step, "bad");
  }
  logger->finish({.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_TRUE(steps("bad").empty());
  const auto aside = read(run_dir_ / "mlflow/refused.jsonl");
  for (const char* step : {R"("step":3)", R"("step":6)", R"("step":9)", "bad is bad"})
    EXPECT_THAT(aside, HasSubstr(step));
  const auto text = told();
  EXPECT_EQ(warnings(text), 1) << text;
  EXPECT_THAT(text, HasSubstr("the server refuses train/bad: HTTP 400: bad is bad"));
}

TEST_F(MlflowLogger, AnArtifactThatIsRefusedIsSetAside) {
  server_.set_mood([](const Request& request) -> std::optional<Answer> {
    return request.path.ends_with("config.yaml") ? std::optional(Answer{.status = 413}) : std::nullopt;
  });
  const auto logger = started();
  log(*logger, 1);
  logger->finish({.status = "completed"});
  EXPECT_EQ(server_.run().status, "FINISHED");
  EXPECT_TRUE(server_.artifacts.contains("1/r0/artifacts/environment.json"));
  EXPECT_THAT(read(run_dir_ / "mlflow/refused.jsonl"), HasSubstr("config.yaml"));
}

TEST_F(MlflowLogger, AServerThatIsNoneOfMlflowsGetsNothingButKeepsAll) {
  server_.set_mood([](const Request&) { return Answer{.status = 404, .body = "<html>nothing here</html>"}; });
  const auto logger = started();
  log(*logger, 1);
  logger->finish({.status = "completed"});
  EXPECT_TRUE(server_.runs.empty());
  EXPECT_FALSE(exists(run_dir_ / "mlflow/refused.jsonl"));
  EXPECT_THAT(told(), HasSubstr(server_.uri() + ": HTTP 404; the training goes on"));
  server_.set_mood(nullptr);
  logger->upload(run_dir_, {.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(MlflowLogger, UploadSendsWhatIsLeftAndOnlyOnce) {
  server_.go_away();
  const auto logger = started();
  log(*logger, 1);
  logger->finish({.status = "completed"});
  const auto text = told();
  EXPECT_EQ(warnings(text), 2) << text;  // that it is away, and that something is left
  EXPECT_THAT(text, HasSubstr("`ddprun upload " + run_dir_.string() + "` sends the rest"));
  EXPECT_THAT(problem_of_upload(*make(), run_dir_), HasSubstr("not sent: 1 rows, "));
  server_.come_back();
  const auto uploading = make();
  uploading->upload(run_dir_, {.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1));
  EXPECT_EQ(server_.run().status, "FINISHED");
  const auto asked = server_.requests.size();
  uploading->upload(run_dir_, {.status = "completed"});
  EXPECT_EQ(server_.requests.size(), asked);
}

TEST_F(MlflowLogger, UploadLeavesARunAloneThatGoesOn) {
  const auto logger = started();
  log(*logger, 9);
  ASSERT_TRUE(has_step(9));
  EXPECT_THAT(problem_of_upload(*make(), run_dir_), HasSubstr("another process is sending"));
}

TEST_F(MlflowLogger, UploadOfAKilledRunSaysThatItFailed) {
  {
    const auto logger = started();
    log(*logger, 9);
    ASSERT_TRUE(has_step(9));
  }
  EXPECT_EQ(server_.run().status, "RUNNING");
  make()->upload(run_dir_, {.status = "failed"});
  EXPECT_EQ(server_.run().status, "FAILED");
  EXPECT_EQ(server_.run().end_time, 9000);  // when it was last heard of
}

TEST_F(MlflowLogger, UploadOfARunThatLoggedNowhereSaysSo) {
  make()->upload(folder_, {.status = "failed"});
  EXPECT_THAT(told(), HasSubstr("has nothing for MLflow"));
  EXPECT_FALSE(exists(folder_ / "mlflow"));
}

TEST_F(MlflowLogger, AResumedAttemptGoesOnInTheSameRun) {
  {
    const auto killed = started();
    for (int64_t step = 1; step <= 6; ++step) log(*killed, step);
    killed->finish({.status = "preempted"});
  }
  const auto resumed = started({.config_yaml = "optimizer: {lr: 0.2}\n", .attempt = 1, .resumed_step = 4});
  EXPECT_TRUE(server_.wait_for([&] { return server_.run().tags["ddprun.attempt"] == "1"; }));
  EXPECT_EQ(server_.run().status, "RUNNING");
  for (int64_t step = 5; step <= 8; ++step) log(*resumed, step);
  resumed->finish({.status = "completed"});
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(server_.run().status, "FINISHED");
  EXPECT_EQ(server_.run().params.at("optimizer.lr"), "0.1");
  EXPECT_EQ(server_.run().tags.at("ddprun.attempt_1.optimizer.lr"), "0.2");
  EXPECT_FALSE(exists(run_dir_ / "mlflow/refused.jsonl"));
}

// A process that is killed after its request and before its note leaves the note of before.
TEST_F(MlflowLogger, AKillBetweenRequestAndNoteLosesNothing) {
  std::string note;
  {
    const auto killed = started();
    log(*killed, 1);
    ASSERT_TRUE(has_step(1));
    note = read(run_dir_ / "mlflow/sent.json");
    log(*killed, 2);
    ASSERT_TRUE(has_step(2));
  }
  write(run_dir_ / "mlflow/sent.json", note);
  started({.attempt = 1, .resumed_step = 2})->finish({.status = "completed"});
  EXPECT_EQ(steps().front(), 1);
  EXPECT_EQ(steps().back(), 2);
  EXPECT_LE(steps().size(), 4U);
}

TEST_F(MlflowLogger, ARunThatCouldNotBeNotedIsFoundAgain) {
  {
    const auto killed = started();
    ASSERT_TRUE(server_.wait_for([&] { return server_.runs.size() == 1; }));
  }
  std::filesystem::remove(run_dir_ / "mlflow/sent.json");
  const auto resumed = started({.attempt = 1});
  log(*resumed, 1);
  resumed->finish({.status = "completed"});
  EXPECT_EQ(server_.runs.size(), 1U);
  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(MlflowLogger, AnotherServerGetsTheWholeRun) {
  {
    const auto first = started();
    log(*first, 1);
    first->finish({.status = "completed"});
  }
  FakeMlflow other;
  options_.set("uri", Value::scalar(other.uri()));
  make()->upload(run_dir_, {.status = "completed"});
  EXPECT_EQ(other.run().metrics.size(), server_.run().metrics.size());
  EXPECT_EQ(other.run().status, "FINISHED");
}

TEST_F(MlflowLogger, RunsOfOneExperimentDoNotDisturbEachOther) {
  const auto first = started();
  run_dir_ = folder_ / "other";
  std::filesystem::create_directories(run_dir_);
  const auto second = started();
  log(*first, 1);
  log(*second, 2);
  first->finish({.status = "completed"});
  second->finish({.status = "failed"});
  ASSERT_EQ(server_.runs.size(), 2U);
  EXPECT_EQ(server_.experiments.size(), 1U);
  std::map<std::string, std::string> status;
  for (const auto& [id, run] : server_.runs) status[run.name] = run.status;
  EXPECT_EQ(status, (std::map<std::string, std::string>{{"run", "FINISHED"}, {"other", "FAILED"}}));
}

TEST_F(MlflowLogger, NamesThatMlflowDoesNotTakeAreToldOnce) {
  const auto logger = started();
  for (int64_t step = 1; step <= 3; ++step) log(*logger, step, "top*5");
  logger->finish({.status = "completed"});
  EXPECT_THAT(steps("top_5"), ElementsAre(1, 2, 3));
  const auto text = told();
  EXPECT_EQ(warnings(text), 1);
  EXPECT_THAT(text, HasSubstr("\"train/top*5\": it is logged as \"train/top_5\""));
}

TEST_F(MlflowLogger, TablesAndTheirImagesAreArtifacts) {
  const auto logger = started();
  PredictionTable table{.split = "val", .step = 3, .class_names = {"cat", "dog"}};
  const ShownImage image{.channels = 1, .height = 2, .width = 2, .bytes = {0, 80, 160, 255}};
  table.rows = {{.id = 4, .image = image, .guess = 0, .truth = 0, .scores = {0.9, 0.1}}};
  logger->predictions(table);
  table.step = 6;
  logger->predictions(table);
  logger->confusion({.split = "test", .step = 6, .class_names = {"cat", "dog"}, .counts = {1, 0, 0, 1}});
  logger->finish({.status = "completed"});
  const std::string folder = "1/r0/artifacts/";
  EXPECT_THAT(server_.artifacts.at(folder + "images/val/4.png"), testing::StartsWith("\x89PNG"));
  const auto shown = json::parse(server_.run().tags.at("mlflow.loggedArtifacts"));
  ASSERT_EQ(shown.size(), 3U);
  for (const auto& entry : shown) EXPECT_TRUE(server_.artifacts.contains(folder + entry["path"].get<std::string>()));
  const auto images =
      std::ranges::count_if(server_.requests, [](const Request& request) { return request.path.ends_with("4.png"); });
  EXPECT_EQ(images, 1);
  EXPECT_TRUE(std::filesystem::is_empty(run_dir_ / "mlflow/files/tables"));
}

TEST_F(MlflowLogger, WeightsAreSentWhereTheyAreAskedFor) {
  options_.set("checkpoint", Value::scalar("best"));
  write(run_dir_ / "checkpoints/step_1/model.safetensors", "weights");
  std::filesystem::create_directory_symlink("step_1", run_dir_ / "checkpoints/best");
  started()->finish({.status = "completed"});
  EXPECT_EQ(server_.artifacts.at("1/r0/artifacts/checkpoints/best/model.safetensors"), "weights");
}

TEST_F(MlflowLogger, ArtifactsThatAreNotBehindTheServerAreLeftOut) {
  FakeMlflow other("s3://bucket/");
  options_.set("uri", Value::scalar(other.uri()));
  const auto logger = started();
  log(*logger, 1);
  logger->finish({.status = "completed"});
  EXPECT_TRUE(other.artifacts.empty());
  EXPECT_EQ(other.run().status, "FINISHED");
  const auto text = told();
  EXPECT_EQ(warnings(text), 1);
  EXPECT_THAT(text, HasSubstr("keeps artifacts in s3://bucket/"));
}

TEST_F(MlflowLogger, SecretsAreSentAndShownNowhere) {
  setenv("MLFLOW_TRACKING_USERNAME", "anna", 1);
  setenv("MLFLOW_TRACKING_PASSWORD", "sesame", 1);
  server_.set_mood([](const Request& request) -> std::optional<Answer> {
    return request.path.ends_with("config.yaml") ? std::optional(Answer{.status = 400}) : std::nullopt;
  });
  started()->finish({.status = "completed"});
  EXPECT_EQ(server_.requests.front().authorization, "Basic YW5uYTpzZXNhbWU=");
  unsetenv("MLFLOW_TRACKING_PASSWORD");
  setenv("MLFLOW_TRACKING_TOKEN", "sesame", 1);
  started()->finish({.status = "completed"});
  EXPECT_EQ(server_.requests.back().authorization, "Bearer sesame");
  server_.go_away();
  started()->finish({.status = "completed"});
  auto all = told();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run_dir_)) {
    if (entry.is_regular_file()) all += read(entry.path());
  }
  EXPECT_THAT(all, Not(HasSubstr("sesame")));
  EXPECT_THAT(all, Not(HasSubstr("YW5uYTpzZXNhbWU=")));
}

TEST_F(MlflowLogger, AnAddressWithAPasswordIsTakenFromTheEnvironmentAlone) {
  const auto address = "http://anna:sesame@" + server_.uri().substr(7);
  options_.set("uri", Value::scalar(address));
  EXPECT_THAT(problem_of_options(), AllOf(HasSubstr("MLFLOW_TRACKING_PASSWORD"), Not(HasSubstr("sesame"))));
  options_.erase("uri");
  setenv("MLFLOW_TRACKING_URI", address.c_str(), 1);
  started()->finish({.status = "completed"});
  EXPECT_EQ(server_.requests.front().authorization, "Basic YW5uYTpzZXNhbWU=");
  EXPECT_THAT(read(run_dir_ / "mlflow/sent.json"), AllOf(HasSubstr(server_.uri() + "\""), Not(HasSubstr("sesame"))));
}

TEST_F(MlflowLogger, MistakesInTheOptionsAreToldBeforeTheRun) {
  options_.set("uri", Value::scalar("sqlite:///mlflow.db"));
  EXPECT_THAT(problem_of_options(), HasSubstr("must begin with http:// or https://, not with \"sqlite\""));
  EXPECT_THAT(problem_of_options(), HasSubstr("mlflow server"));
  options_.set("uri", Value::scalar("http://"));
  EXPECT_THAT(problem_of_options(), HasSubstr("is no address"));
  options_.erase("uri");
  EXPECT_THAT(problem_of_options(), HasSubstr("MLFLOW_TRACKING_URI"));
  setenv("MLFLOW_TRACKING_URI", "file:///tmp/mlruns", 1);
  EXPECT_THAT(problem_of_options(), HasSubstr("MLFLOW_TRACKING_URI must begin with http://"));
  options_.set("uri", Value::scalar(server_.uri()));
  auto names = Value::list();
  names.items().push_back(Value::scalar("../secret"));
  options_.set("artifacts", names);
  EXPECT_THAT(problem_of_options(), HasSubstr("\"../secret\" is no file or folder in the run's folder"));
}

}  // namespace
}  // namespace ddprun

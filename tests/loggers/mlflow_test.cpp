// SPDX-License-Identifier: MIT
// What of a run arrives at MLflow, and how.
#include "mlflow_fixture.h"

#include <cmath>

namespace ddprun::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Answer = FakeMlflow::Answer;
using Request = FakeMlflow::Request;

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
  table.rows = {{.id = 4, .image = image, .output = image, .guess = 0, .truth = 0, .scores = {0.9, 0.1}}};
  logger->predictions(table);
  table.step = 6;
  logger->predictions(table);
  logger->confusion({.split = "test", .step = 6, .class_names = {"cat", "dog"}, .counts = {1, 0, 0, 1}});
  logger->finish({.status = "completed"});
  const std::string folder = "1/r0/artifacts/";
  EXPECT_THAT(server_.artifacts.at(folder + "images/val/4.png"), testing::StartsWith("\x89PNG"));
  for (const auto* name : {"4_step_3.png", "4_step_6.png"})
    EXPECT_TRUE(server_.artifacts.contains(folder + "images/val/" + name)) << name;
  const auto shown = json::parse(server_.run().tags.at("mlflow.loggedArtifacts"));
  ASSERT_EQ(shown.size(), 3U);
  for (const auto& entry : shown) EXPECT_TRUE(server_.artifacts.contains(folder + entry["path"].get<std::string>()));
  const auto images =
      std::ranges::count_if(server_.requests, [](const Request& request) { return request.path.ends_with("/4.png"); });
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
  EXPECT_THAT(text, HasSubstr("stores artifacts in s3://bucket/"));
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
  EXPECT_THAT(problem_of_options(), HasSubstr("is not an address"));
  options_.erase("uri");
  EXPECT_THAT(problem_of_options(), HasSubstr("MLFLOW_TRACKING_URI"));
  setenv("MLFLOW_TRACKING_URI", "file:///tmp/mlruns", 1);
  EXPECT_THAT(problem_of_options(), HasSubstr("MLFLOW_TRACKING_URI must begin with http://"));
  options_.set("uri", Value::scalar(server_.uri()));
  auto names = Value::list();
  names.items().push_back(Value::scalar("../secret"));
  options_.set("artifacts", names);
  EXPECT_THAT(problem_of_options(), HasSubstr("\"../secret\" is not a file or folder in the run's folder"));
}

}  // namespace
}  // namespace ddprun::test

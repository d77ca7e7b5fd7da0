// SPDX-License-Identifier: MIT
// A server that is away, in trouble, slow or unwilling.
#include "mlflow_fixture.h"

#include <set>

namespace ddprun::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Answer = FakeMlflow::Answer;
using Request = FakeMlflow::Request;

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
  for (const int status : {500, 502, 503, 429, 408}) {
    auto left = std::make_shared<int>(1);
    server_.set_mood([=](const Request& request) -> std::optional<Answer> {
      if (!is_batch(request) || !holds(request, "train/loss") || (*left)-- <= 0) return std::nullopt;
      return Answer{.status = status, .body = R"({"message": "not now"})"};
    });
    const auto logger = started();
    log(*logger, status);
    ASSERT_TRUE(has_step(status)) << status;
  }
  EXPECT_FALSE(exists(run_dir_ / "mlflow/refused.jsonl"));
  const auto text = told();
  EXPECT_EQ(warnings(text), 5) << text;
  EXPECT_THAT(text, HasSubstr(server_.uri() + ": HTTP 503: not now; the training goes on"));
}

TEST_F(MlflowLogger, AServerThatDoesNotWantUsIsWaitedFor) {
  for (const int status : {401, 403}) {
    auto left =
        std::make_shared<int>(2);  // the request, and the empty one that asks whether it was the request's fault
    server_.set_mood([=](const Request& request) {
      return is_batch(request) && (*left)-- > 0 ? std::optional(Answer{.status = status}) : std::nullopt;
    });
    const auto logger = started();
    log(*logger, status);
    ASSERT_TRUE(has_step(status)) << status;
  }
  EXPECT_FALSE(exists(run_dir_ / "mlflow/refused.jsonl"));
  EXPECT_EQ(warnings(told()), 2);
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

}  // namespace
}  // namespace ddprun::test

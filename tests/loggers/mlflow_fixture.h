// SPDX-License-Identifier: MIT
// The logger mlflow as the runner loads it, before a server that does as the test tells it.
#pragma once

#include "fake_mlflow.h"
#include "plugin_host/plugin_host.h"
#include "support/temporary_folder.h"

#include <ddprun/error.h>
#include <ddprun/logger.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <regex>
#include <string>
#include <vector>

namespace ddprun::test {

inline constexpr const char* kMlflowVariables[] = {"MLFLOW_TRACKING_URI",      "MLFLOW_EXPERIMENT_NAME",
                                                   "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD",
                                                   "MLFLOW_TRACKING_TOKEN",    "http_proxy"};

class MlflowLogger : public FolderTest {
 protected:
  MlflowLogger() {
    for (const char* name : kMlflowVariables) unsetenv(name);
    write(run_dir_ / "config.yaml", "optimizer: {lr: 0.1}\n");
    write(run_dir_ / "environment.json", R"({"git": {"sha": "abc"}, "arguments": ["ddprun", "toy.yaml"]})");
    options_.set("uri", Value::scalar(server_.uri()));
    options_.set("timeout", Value::scalar("1"));
    testing::internal::CaptureStderr();
  }
  ~MlflowLogger() override {
    if (!told_) testing::internal::GetCapturedStderr();
    for (const char* name : kMlflowVariables) unsetenv(name);
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

  // Returns the steps of train/<name>, in the order in which they came.
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

inline bool is_batch(const FakeMlflow::Request& request) { return request.path.ends_with("runs/log-batch"); }

inline bool holds(const FakeMlflow::Request& request, const std::string& text) {
  return request.body.find(text) != std::string::npos;
}

}  // namespace ddprun::test

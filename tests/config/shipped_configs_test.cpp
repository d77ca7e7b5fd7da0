// SPDX-License-Identifier: MIT
// The experiments and groups that come with ddprun.
#include "config/config_fixture.h"
#include "config/idle_settings.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = DDPRUN_CONFIGS;

std::vector<fs::path> files_of(const std::string& group) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(kConfigs / group)) {
    if (file.path().extension() == ".yaml") files.push_back(file.path());
  }
  return files;
}

class ShippedConfigs : public ConfigFixture {};

TEST_F(ShippedConfigs, EveryExperimentLoads) {
  EXPECT_GE(files_of("experiments").size(), 3U);
  for (const auto& file : files_of("experiments")) {
    EXPECT_EQ(error_of([&] { load_experiment({.experiment = file}); }), "") << file;
  }
}

TEST_F(ShippedConfigs, EveryExperimentTakesABatchOfEitherKind) {
  for (const auto& file : files_of("experiments")) {
    const auto whole = load_experiment({.experiment = file, .overrides = {"trainer.global_batch=512"}});
    EXPECT_EQ(whole.trainer.global_batch_of(4), 512) << file;
    const auto parts = load_experiment({.experiment = file, .overrides = {"trainer.batch_per_worker=32"}});
    EXPECT_EQ(parts.trainer.global_batch_of(4), 128) << file;
  }
}

TEST_F(ShippedConfigs, NoExperimentHasASettingWithoutEffect) {
  for (const auto& file : files_of("experiments"))
    EXPECT_THAT(idle_settings(load_experiment({.experiment = file})), testing::IsEmpty()) << file;
}

TEST_F(ShippedConfigs, EveryGroupLoads) {
  write("e.yaml", kMinimal);
  for (const std::string group : {"model", "dataset", "optimizer", "trainer", "logger", "launch"}) {
    for (const auto& file : files_of(group)) {
      const auto choice = (group == "logger" ? "loggers" : group) + "=" + file.stem().string();
      EXPECT_EQ(error_of([&] {
                  load_experiment({.experiment = "e.yaml", .overrides = {choice}, .search_path = {kConfigs}});
                }),
                "")
          << file;
    }
  }
}

TEST_F(ShippedConfigs, EveryFileOpensWithAComment) {
  for (const std::string group : {"experiments", "model", "dataset", "optimizer", "trainer", "logger", "launch"}) {
    for (const auto& file : files_of(group)) EXPECT_EQ(std::ifstream(file).get(), '#') << file;
  }
}

TEST_F(ShippedConfigs, MnistIsFoundFromAnywhere) {
  const auto mnist = load_experiment({.experiment = "experiments/mnist.yaml", .search_path = {kConfigs}});
  EXPECT_EQ(mnist.name, "mnist");
  EXPECT_EQ(mnist.model.plugin, "convnet");
  EXPECT_EQ(mnist.optimizer.plugin, "sgd");
  EXPECT_EQ(mnist.early_stopping->patience, 3);
}

TEST_F(ShippedConfigs, FashionMnistBuildsOnMnist) {
  const auto fashion = load_experiment({.experiment = "fashion_mnist", .search_path = {kConfigs}});
  EXPECT_EQ(fashion.name, "fashion_mnist");
  EXPECT_EQ(fashion.dataset.plugin, "fashion_mnist");
  EXPECT_EQ(fashion.model.plugin, "convnet_bn");
  EXPECT_EQ(fashion.model.options.find("dropout"), nullptr);
  EXPECT_FALSE(fashion.early_stopping->target);
}

}  // namespace
}  // namespace ddprun

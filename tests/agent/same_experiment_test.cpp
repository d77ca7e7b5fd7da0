// SPDX-License-Identifier: MIT
#include "agent/same_experiment.h"

#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SameExperiment : public FolderTest {
 protected:
  SameExperiment() {
    for (const char* kind : {"model", "dataset", "optimizer"}) write(file_of(kind), "the plugin");
  }

  fs::path file_of(const std::string& kind) const { return folder_ / (kind + ".so"); }

  CheckedExperiment checked(const std::string& lr = "0.1") const {
    CheckedExperiment checked;
    checked.experiment.name = "digits";
    checked.experiment.model = {.plugin = "mlp", .path = "model"};
    checked.experiment.dataset = {.plugin = "digits", .path = "dataset"};
    checked.experiment.optimizer = {.plugin = "sgd", .path = "optimizer"};
    auto config = Value::map();
    config.set("optimizer", Value::map()).set("lr", Value::scalar(lr));
    checked.as_written = config;
    for (const auto* choice : plugin_choices(checked.experiment))
      checked.plugins.push_back({choice->path, choice->plugin, file_of(choice->path)});
    return checked;
  }

  static std::string refusal(const CommonPart& there, const CommonPart& here) {
    return error_of([&] { require_same_experiment(there, here); });
  }

  std::string refused_place(const fs::path& run_dir, const std::string& checkpoint, const fs::path& own_run_dir,
                            Resume resume = Resume::kNever, const std::string& resume_from = "") const {
    auto experiment = checked().experiment;
    experiment.checkpoint.resume = resume;
    experiment.checkpoint.resume_from = resume_from;
    return error_of(
        [&] { require_expected_places({.run_dir = run_dir, .checkpoint = checkpoint}, experiment, own_run_dir); });
  }
};

TEST_F(SameExperiment, TheSameIsTheSameWhereverItsPluginsLie) {
  const auto here = common_part(checked());
  fs::create_directory(folder_ / "elsewhere");
  auto other = checked();
  other.plugins[0] = {"model", folder_ / "elsewhere" / "mlp", folder_ / "elsewhere" / "model.so"};
  fs::copy_file(folder_ / "model.so", other.plugins[0].file);
  EXPECT_EQ(refusal(common_part(other), here), "");
}

TEST_F(SameExperiment, AValueThatDiffersIsNamedWithBoth) {
  EXPECT_THAT(refusal(common_part(checked("0.5")), common_part(checked())),
              HasSubstr("optimizer.lr: 0.5 there, 0.1 here"));
}

TEST_F(SameExperiment, APluginsFileThatDiffersIsNamed) {
  const auto there = common_part(checked());
  write(file_of("dataset"), "the plugin of another day");
  EXPECT_THAT(refusal(there, common_part(checked())), HasSubstr("the file of dataset's plugin: dataset.so, SHA-256 "));
}

TEST_F(SameExperiment, MoreThanAFewDifferencesAreCounted) {
  const auto here = common_part(checked());
  EXPECT_THAT(refusal({}, here), HasSubstr("; and " + std::to_string(here.size() - 3) + " more"));
}

TEST_F(SameExperiment, TheRunsFolderIsTheOneThatThisNodesCommandNames) {
  EXPECT_EQ(refused_place(folder_ / "run", "", folder_ / "run"), "");
  EXPECT_EQ(refused_place(folder_ / "x/../run", "", folder_ / "run"), "");
  EXPECT_THAT(refused_place("/etc/run", "", folder_ / "run"), HasSubstr("the run's folder is /etc/run, but"));
  EXPECT_EQ(refused_place(fs::absolute("outputs/digits/2026-11-20_12-00-00"), "", {}), "");
  EXPECT_THAT(refused_place(fs::absolute("outputs/digits/../../.ssh"), "", {}), HasSubstr("it is one in "));
}

TEST_F(SameExperiment, TheCheckpointIsTheRunsOwnOrTheOneThatThisNodeNames) {
  const auto run = folder_ / "run";
  const auto own = (run / "checkpoints/step_00000005").string(), foreign = (folder_ / "evil").string();
  EXPECT_EQ(refused_place(run, own, run), "");
  EXPECT_THAT(refused_place(run, foreign, run), HasSubstr("resumes from " + foreign));
  EXPECT_THAT(refused_place(run, foreign, run, Resume::kAuto), HasSubstr("resumes from " + foreign));
  EXPECT_EQ(refused_place(run, foreign, run, Resume::kFrom, foreign), "");
}

}  // namespace
}  // namespace ddprun

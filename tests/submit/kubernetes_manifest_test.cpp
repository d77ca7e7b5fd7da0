// SPDX-License-Identifier: MIT
#include "experiments.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

using Words = std::vector<std::string>;

// The Job; the last document.
YAML::Node job(const Experiment& experiment, const Submission& submission) {
  return YAML::LoadAll(kubernetes_manifest(experiment, submission)).back();
}

YAML::Node container(const YAML::Node& job) { return job["spec"]["template"]["spec"]["containers"][0]; }

std::string name_of(const YAML::Node& document) { return document["metadata"]["name"].as<std::string>(); }

TEST(KubernetesManifest, IsAServiceASecretAndAnIndexedJob) {
  const auto documents = YAML::LoadAll(kubernetes_manifest(testing::large(), testing::submission()));
  ASSERT_EQ(documents.size(), 3U);
  EXPECT_EQ(documents[0]["spec"]["clusterIP"].as<std::string>(), "None");
  EXPECT_THAT(documents[1]["stringData"]["token"].as<std::string>(), MatchesRegex("[0-9a-f]{64}"));
  const auto spec = documents[2]["spec"];
  EXPECT_EQ(spec["completions"].as<int>(), 2);
  EXPECT_EQ(spec["parallelism"].as<int>(), 2);
  EXPECT_EQ(spec["backoffLimit"].as<int>(), 6);
  EXPECT_EQ(spec["activeDeadlineSeconds"].as<int>(), 36 * 3600 + 90);
  EXPECT_EQ(spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"][0].as<int>(), 2);
  EXPECT_EQ(spec["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"][0].as<int>(), 75);
  const auto limits = container(documents[2])["resources"]["limits"];
  EXPECT_EQ(limits.size(), 4U);
  EXPECT_EQ(limits["nvidia.com/gpu"].as<int>(), 4);
  EXPECT_EQ(limits["cpu"].as<int>(), 32);
  EXPECT_EQ(limits["memory"].as<std::string>(), "64Gi");
  EXPECT_EQ(limits["ephemeral-storage"].as<std::string>(), "20Gi");
}

TEST(KubernetesManifest, ItsPartsNameOneAnother) {
  const auto text = kubernetes_manifest(testing::large(), testing::submission());
  const auto documents = YAML::LoadAll(text);
  const auto pod = documents[2]["spec"]["template"];
  const auto name = name_of(documents[2]);
  EXPECT_THAT(name, MatchesRegex("mnist-[0-9a-f]{8}"));
  EXPECT_EQ(name_of(documents[0]), name);
  EXPECT_EQ(documents[0]["spec"]["selector"]["ddprun"].as<std::string>(), name);
  EXPECT_EQ(pod["metadata"]["labels"]["ddprun"].as<std::string>(), name);
  EXPECT_EQ(pod["spec"]["subdomain"].as<std::string>(), name);
  EXPECT_EQ(container(documents[2])["env"][1]["valueFrom"]["secretKeyRef"]["name"].as<std::string>(),
            name_of(documents[1]));
  EXPECT_THAT(container(documents[2])["command"].as<Words>(),
              ElementsAre("ddprun", "experiments/mnist.yaml", "--nnodes=2", "--node-rank=$(JOB_COMPLETION_INDEX)",
                          "--rdzv-endpoint=" + name + "-0." + name + ":29400", "trainer.max_epochs=3",
                          "model.note=it's $$HOME", "run.dir=/outputs/mnist/$(DDPRUN_JOB)", "checkpoint.resume=auto"));
  EXPECT_NE(kubernetes_manifest(testing::large(), testing::submission()), text)
      << "each job has a name and a token of its own";
}

TEST(KubernetesManifest, TextsThatLookLikeYamlStayTexts) {
  auto experiment = testing::large();
  experiment.resources.image = "a \"b\" \\ # {c}: [d] ${job}";
  experiment.resources.claim = "123";
  const auto pod = job(experiment, {.experiment = "true", .overrides = {"a: {b}", "~x"}})["spec"]["template"]["spec"];
  EXPECT_EQ(pod["containers"][0]["image"].as<std::string>(), experiment.resources.image);
  EXPECT_EQ(pod["volumes"][0]["persistentVolumeClaim"]["claimName"].Tag(), "!") << "it is in quotes";
  const auto command = pod["containers"][0]["command"].as<Words>();
  EXPECT_EQ(command[1], "true");
  EXPECT_EQ(command[5], "a: {b}");
  EXPECT_EQ(command[6], "~x");
}

TEST(KubernetesManifest, OfOnePodNeedsNoService) {
  Experiment experiment;
  experiment.name = "Small one";
  experiment.resources = {.image = "i", .claim = "c"};
  EXPECT_EQ(YAML::LoadAll(kubernetes_manifest(experiment, {.experiment = "small.yaml"})).size(), 1U);
  const auto only = job(experiment, {.experiment = "small.yaml"});
  EXPECT_THAT(only["metadata"]["name"].as<std::string>(), MatchesRegex("small-one-[0-9a-f]{8}"));
  EXPECT_EQ(container(only)["resources"]["limits"].size(), 0U);
  EXPECT_THAT(
      container(only)["command"].as<Words>(),
      ElementsAre("ddprun", "small.yaml", "run.dir=/outputs/small-one/$(DDPRUN_JOB)", "checkpoint.resume=auto"));
}

TEST(KubernetesManifest, RunsAsTheUserThatIsAskedFor) {
  auto experiment = testing::large();
  EXPECT_FALSE(job(experiment, testing::submission())["spec"]["template"]["spec"]["securityContext"]);
  experiment.resources.user = 1000;
  const auto context = job(experiment, testing::submission())["spec"]["template"]["spec"]["securityContext"];
  EXPECT_TRUE(context["runAsNonRoot"].as<bool>());
  EXPECT_EQ(context["runAsUser"].as<int>(), 1000);
}

TEST(KubernetesManifest, LeavesTheUsersRunFolderAndCheckpointAlone) {
  auto experiment = testing::large();
  experiment.resources.nodes = 1;
  experiment.run_dir = "/outputs/mine";
  experiment.checkpoint.resume = Resume::kFrom;
  EXPECT_THAT(container(job(experiment, {.experiment = "e.yaml", .overrides = {"run.dir=/outputs/mine"}}))["command"]
                  .as<Words>(),
              ElementsAre("ddprun", "e.yaml", "run.dir=/outputs/mine"));
}

TEST(KubernetesManifest, NeedsAnImageAndAClaim) {
  auto experiment = testing::large();
  experiment.resources.claim.clear();
  EXPECT_THROW(kubernetes_manifest(experiment, testing::submission()), UserError);
  experiment.resources.image.clear();
  try {
    kubernetes_manifest(experiment, testing::submission());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("resources.image: missing"));
  }
}

}  // namespace
}  // namespace ddprun

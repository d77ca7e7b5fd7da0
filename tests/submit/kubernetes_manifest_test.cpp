// SPDX-License-Identifier: MIT
#include "experiments.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <regex>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

using Words = std::vector<std::string>;

constexpr const char* kLarge =
    R"yaml(# Written by ddprun submit: kubectl apply -f THIS_FILE. Pods that end with 75 (saved) or are evicted start again and go on;
# 2 (the experiment is wrong) ends the job.
apiVersion: v1
kind: Service
metadata: {name: mnist-RANDOM, labels: {ddprun: mnist-RANDOM}}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {ddprun: mnist-RANDOM}
---
apiVersion: v1
kind: Secret
metadata: {name: mnist-RANDOM-token, labels: {ddprun: mnist-RANDOM}}
stringData: {token: "RANDOM"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: mnist-RANDOM, labels: {ddprun: mnist-RANDOM}}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  backoffLimit: 6
  ttlSecondsAfterFinished: 259200
  activeDeadlineSeconds: 129690
  podFailurePolicy:
    rules:
      - action: FailJob
        onExitCodes: {containerName: ddprun, operator: In, values: [2]}
      - action: Ignore
        onExitCodes: {containerName: ddprun, operator: In, values: [75]}
      - action: Ignore
        onPodConditions: [{type: DisruptionTarget, status: "True"}]
  template:
    metadata:
      labels: {ddprun: mnist-RANDOM}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 120
      subdomain: mnist-RANDOM
      containers:
        - name: ddprun
          image: "registry/ddprun:0.1"
          command: ["ddprun", "experiments/mnist.yaml", "--nnodes=2", "--node-rank=$(JOB_COMPLETION_INDEX)", "--rdzv-endpoint=mnist-RANDOM-0.mnist-RANDOM:29400", "trainer.max_epochs=3", "model.note=it's $$HOME", "run.dir=/outputs/mnist/$(DDPRUN_JOB)", "checkpoint.resume=auto"]
          env:
            - name: DDPRUN_JOB
              valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/controller-uid']"}}
            - name: DDPRUN_TOKEN
              valueFrom: {secretKeyRef: {name: mnist-RANDOM-token, key: token}}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
          resources:
            limits: {nvidia.com/gpu: 4, cpu: 32, memory: 64Gi, ephemeral-storage: 20Gi}
          volumeMounts: [{name: outputs, mountPath: /outputs}, {name: shm, mountPath: /dev/shm}]
      volumes:
        - {name: outputs, persistentVolumeClaim: {claimName: "outputs"}}
        - {name: shm, emptyDir: {medium: Memory}}
)yaml";

std::string without_random_digits(const std::string& manifest) {
  return std::regex_replace(manifest, std::regex("\\b([0-9a-f]{64}|[0-9a-f]{8})\\b"), "RANDOM");
}

TEST(KubernetesManifest, IsAServiceASecretAndAnIndexedJob) {
  const auto manifest = kubernetes_manifest(testing::large(), testing::submission());
  EXPECT_EQ(without_random_digits(manifest), kLarge);
  EXPECT_NE(kubernetes_manifest(testing::large(), testing::submission()), manifest)
      << "each job has a name and a token of its own";
}

// The Job; the last document.
YAML::Node job(const Experiment& experiment, const Submission& submission) {
  return YAML::LoadAll(kubernetes_manifest(experiment, submission)).back();
}

YAML::Node container(const YAML::Node& job) { return job["spec"]["template"]["spec"]["containers"][0]; }

TEST(KubernetesManifest, IsReadAsYaml) {
  const auto documents = YAML::LoadAll(kubernetes_manifest(testing::large(), testing::submission()));
  ASSERT_EQ(documents.size(), 3U);
  EXPECT_EQ(documents[0]["spec"]["clusterIP"].as<std::string>(), "None");
  EXPECT_EQ(documents[1]["stringData"]["token"].as<std::string>().size(), 64U);
  EXPECT_EQ(documents[2]["spec"]["completions"].as<int>(), 2);
  EXPECT_EQ(container(documents[2])["resources"]["limits"]["nvidia.com/gpu"].as<int>(), 4);
  EXPECT_EQ(container(documents[2])["command"].as<Words>()[6], "model.note=it's $$HOME");
  const auto rules = documents[2]["spec"]["podFailurePolicy"]["rules"];
  EXPECT_EQ(rules[0]["onExitCodes"]["values"][0].as<int>(), 2);
  EXPECT_EQ(rules[1]["onExitCodes"]["values"][0].as<int>(), 75);
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

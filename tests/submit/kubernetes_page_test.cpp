// SPDX-License-Identifier: MIT
// The manifest of docs/launching.md, which users fill in: end_to_end/submit_test.py has its command train.
#include "cluster/endpoint.h"

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <iterator>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

// Returns the Service, the Secret and the Job.
std::vector<YAML::Node> manifest() {
  std::ifstream file(DDPRUN_DOCS "/launching.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}}, fence = "```";
  const auto begin = page.find(fence + "yaml\n", page.find("\n## Kubernetes\n")) + fence.size() + 5;
  return YAML::LoadAll(page.substr(begin, page.find(fence, begin) - begin));
}

std::string text(const YAML::Node& node) { return node.as<std::string>(); }

TEST(KubernetesPage, TheManifestsPartsNameOneAnother) {
  const auto documents = manifest();
  ASSERT_EQ(documents.size(), 3U);
  const auto job = documents[2]["spec"], pod = job["template"]["spec"], container = pod["containers"][0];
  const auto name = text(documents[0]["metadata"]["name"]), pods = text(job["completions"]);
  EXPECT_EQ(text(documents[0]["spec"]["selector"]["ddprun"]), name);
  EXPECT_EQ(text(job["template"]["metadata"]["labels"]["ddprun"]), name);
  EXPECT_EQ(text(pod["subdomain"]), name);
  EXPECT_EQ(text(job["parallelism"]), pods);
  const auto secret = container["env"][0]["valueFrom"]["secretKeyRef"];
  EXPECT_EQ(text(secret["name"]), text(documents[1]["metadata"]["name"]));
  EXPECT_TRUE(documents[1]["stringData"][text(secret["key"])]);
  EXPECT_EQ(text(container["env"][1]["name"]), "DDPRUN_JOB");
  EXPECT_THAT(container["command"].as<std::vector<std::string>>(),
              ElementsAre("ddprun", "experiments/mnist.yaml", "--nnodes=" + pods, "--node-rank=$(JOB_COMPLETION_INDEX)",
                          "--rdzv-endpoint=" + name + "-0." + name + ":" + std::to_string(kDefaultRdzvPort),
                          "run.dir=/outputs/mnist/$(DDPRUN_JOB)", "checkpoint.resume=auto"));
  for (const auto& document : documents) EXPECT_EQ(text(document["metadata"]["labels"]["ddprun"]), name);
  for (const auto& mount : container["volumeMounts"]) {
    const auto is_its = [&](const YAML::Node& volume) { return text(volume["name"]) == text(mount["name"]); };
    EXPECT_EQ(std::count_if(pod["volumes"].begin(), pod["volumes"].end(), is_its), 1) << mount["name"];
  }
}

// What ends a pod is counted or not by the codes that ddprun ends with.
TEST(KubernetesPage, APodThatHasSavedStartsAgainAndAMistakeEndsTheJob) {
  const auto rules = manifest()[2]["spec"]["podFailurePolicy"]["rules"];
  EXPECT_EQ(text(rules[0]["action"]) + text(rules[0]["onExitCodes"]["values"][0]), "FailJob2");
  EXPECT_EQ(text(rules[1]["action"]) + text(rules[1]["onExitCodes"]["values"][0]), "Ignore75");
}

}  // namespace
}  // namespace ddprun

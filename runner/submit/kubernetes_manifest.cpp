// SPDX-License-Identifier: MIT
#include "cluster/endpoint.h"
#include "submit/submission.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <random>
#include <sstream>

namespace ddprun {
namespace {

constexpr int kFailures = 3;             // per pod, on average
constexpr int kSecondsKept = 3 * 86400;  // for a Job that has ended, with what its pods printed
constexpr const char* kHeader =
    "# Written by ddprun submit: kubectl apply -f THIS_FILE. Pods that end with 75 (saved) or are evicted start again "
    "and go "
    "on;\n# 2 (the experiment is wrong) ends the job.\n";

// Returns eight digits per word. Job names get them too, since an existing name cannot be reused.
std::string random_digits(int words) {
  std::random_device random;  // the kernel's
  std::ostringstream text;
  for (int i = 0; i < words; ++i) text << std::hex << std::setw(8) << std::setfill('0') << random();
  return text.str();
}

std::string metadata(const std::string& name, const std::string& job) {
  return "metadata: {name: " + name + ", labels: {ddprun: " + job + "}}\n";
}

// Returns a list in one line.
std::string flow(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const auto& item : items) text += (text.size() > 1 ? ", " : "") + item;
  return text + "]";
}

// Escapes $(NAME), which Kubernetes replaces in a command.
std::string literal(const std::string& text) {
  std::string escaped;
  for (const char letter : text) escaped += letter == '$' ? "$$" : std::string(1, letter);
  return yaml_text(escaped);
}

bool is_overridden(const Submission& submission, const std::string& key) {
  return std::ranges::any_of(submission.overrides,
                             [&](const auto& override) { return override.find(key + "=") != std::string::npos; });
}

std::string command(const Experiment& experiment, const Submission& submission, const std::string& name) {
  std::vector<std::string> words{yaml_text("ddprun"), literal(submission.experiment)};
  if (nodes_of(experiment) > 1) {
    words.push_back(yaml_text("--nnodes=" + std::to_string(nodes_of(experiment))));
    words.push_back(yaml_text("--node-rank=$(JOB_COMPLETION_INDEX)"));
    words.push_back(yaml_text("--rdzv-endpoint=" + name + "-0." + name + ":" + std::to_string(kDefaultRdzvPort)));
  }
  for (const auto& override : submission.overrides) words.push_back(literal(override));
  if (experiment.run_dir.empty())
    words.push_back(yaml_text("run.dir=/outputs/" + kubernetes_name(experiment.name) + "/$(DDPRUN_JOB)"));
  if (experiment.checkpoint.resume == Resume::kNever && !is_overridden(submission, "checkpoint.resume"))
    words.push_back(yaml_text("checkpoint.resume=auto"));
  return flow(words);
}

std::string limits(const Experiment& experiment) {
  const auto& resources = experiment.resources;
  std::vector<std::string> items;
  if (resources.gpus > 0) items.push_back("nvidia.com/gpu: " + std::to_string(resources.gpus));
  if (const auto cpus = cpus_of_node(experiment); cpus > 0) items.push_back("cpu: " + std::to_string(cpus));
  if (!resources.memory.empty()) items.push_back("memory: " + resources.memory + "i");
  if (!resources.ephemeral_storage.empty()) items.push_back("ephemeral-storage: " + resources.ephemeral_storage + "i");
  const auto list = flow(items);
  return "{" + list.substr(1, list.size() - 2) + "}";
}

// The secret by which the pods prove that they belong to one run.
std::string token_secret(const std::string& name) {
  return "apiVersion: v1\nkind: Secret\n" + metadata(name + "-token", name) + "stringData: {token: \"" +
         random_digits(8) + "\"}\n---\n";
}

// The service makes the first pod's name known before it is ready.
std::string service(const std::string& name) {
  return "apiVersion: v1\nkind: Service\n" + metadata(name, name) +
         "spec:\n"
         "  clusterIP: None\n"
         "  publishNotReadyAddresses: true\n"
         "  selector: {ddprun: " +
         name + "}\n---\n";
}

std::string job_head(const Experiment& experiment, const std::string& name) {
  const auto nodes = nodes_of(experiment);
  std::ostringstream text;
  text << "apiVersion: batch/v1\nkind: Job\n"
       << metadata(name, name) << "spec:\n"
       << "  completionMode: Indexed\n"
       << "  completions: " << nodes << "\n"
       << "  parallelism: " << nodes << "\n"
       << "  backoffLimit: " << kFailures * nodes << "\n"
       << "  ttlSecondsAfterFinished: " << kSecondsKept << "\n";
  if (experiment.resources.seconds > 0)
    text << "  activeDeadlineSeconds: " << static_cast<int64_t>(std::ceil(experiment.resources.seconds)) << "\n";
  text << "  podFailurePolicy:\n"
          "    rules:\n"
          "      - action: FailJob\n"
          "        onExitCodes: {containerName: ddprun, operator: In, values: [2]}\n"
          "      - action: Ignore\n"
          "        onExitCodes: {containerName: ddprun, operator: In, values: [75]}\n"
          "      - action: Ignore\n"
          "        onPodConditions: [{type: DisruptionTarget, status: \"True\"}]\n";
  return text.str();
}

std::string pod(const Experiment& experiment, const Submission& submission, const std::string& name) {
  std::ostringstream text;
  text << "  template:\n    metadata:\n      labels: {ddprun: " << name << "}\n    spec:\n"
       << "      restartPolicy: Never\n"
       << "      terminationGracePeriodSeconds: 120\n";
  if (nodes_of(experiment) > 1) text << "      subdomain: " << name << "\n";
  if (const auto user = experiment.resources.user; user > 0)  // the claim's files belong to the group, too
    text << "      securityContext: {runAsNonRoot: true, runAsUser: " << user << ", runAsGroup: " << user
         << ", fsGroup: " << user << "}\n";
  text << "      containers:\n"
       << "        - name: ddprun\n"
       << "          image: " << yaml_text(experiment.resources.image) << "\n"
       << "          command: " << command(experiment, submission, name) << "\n"
       << "          env:\n"
       << "            - name: DDPRUN_JOB\n"
       << "              valueFrom: {fieldRef: {fieldPath: "
          "\"metadata.labels['batch.kubernetes.io/controller-uid']\"}}\n";
  if (nodes_of(experiment) > 1)
    text << "            - name: DDPRUN_TOKEN\n"
         << "              valueFrom: {secretKeyRef: {name: " << name << "-token, key: token}}\n";
  text << "          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: "
          "{type: RuntimeDefault}}\n"
       << "          resources:\n"
       << "            limits: " << limits(experiment) << "\n"
       << "          volumeMounts: [{name: outputs, mountPath: /outputs}, {name: shm, mountPath: /dev/shm}]\n"
       << "      volumes:\n"
       << "        - {name: outputs, persistentVolumeClaim: {claimName: " << yaml_text(experiment.resources.claim)
       << "}}\n"
       << "        - {name: shm, emptyDir: {medium: Memory}}\n";
  return text.str();
}

void require_named(const ResourcesConfig& resources) {
  if (resources.image.empty())
    throw UserError(
        "resources.image: missing; Kubernetes needs an image with ddprun in it, such as "
        "registry/ddprun:" DDPRUN_VERSION);
  if (resources.claim.empty())
    throw UserError(
        "resources.claim: missing; name the PersistentVolumeClaim for the outputs, which all pods write to "
        "(ReadWriteMany)");
}

}  // namespace

std::string kubernetes_manifest(const Experiment& experiment, const Submission& submission) {
  require_named(experiment.resources);
  const auto name = kubernetes_name(experiment.name) + "-" + random_digits(1);
  return kHeader + (nodes_of(experiment) > 1 ? service(name) + token_secret(name) : "") + job_head(experiment, name) +
         pod(experiment, submission, name);
}

}  // namespace ddprun

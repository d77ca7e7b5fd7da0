// SPDX-License-Identifier: MIT
// The values of the places in kubernetes/*.yaml.
#include "cluster/endpoint.h"
#include "submit/submission.h"
#include "submit/yaml_template.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <random>
#include <sstream>

namespace ddprun {
namespace {

using Values = std::vector<std::string>;

constexpr int kFailures = 3;  // per pod, on average
constexpr const char* kHeader = "# Written by ddprun submit: kubectl apply -f THIS_FILE.\n";

// Returns eight digits per word. Job names get them too, since an existing name cannot be reused.
std::string random_digits(int words) {
  std::random_device random;  // the kernel's
  std::ostringstream text;
  for (int i = 0; i < words; ++i) text << std::hex << std::setw(8) << std::setfill('0') << random();
  return text.str();
}

Values only_if(bool is_there, const std::string& value) { return is_there ? Values{value} : Values{}; }
Values if_any(const std::string& text) { return only_if(!text.empty(), text); }
Values if_positive(int64_t number) { return only_if(number > 0, std::to_string(number)); }

// Escapes $(NAME), which Kubernetes replaces in a command.
std::string literal(const std::string& text) {
  std::string escaped;
  for (const char letter : text) escaped += letter == '$' ? "$$" : std::string(1, letter);
  return escaped;
}

bool is_overridden(const Submission& submission, const std::string& key) {
  return std::ranges::any_of(submission.overrides,
                             [&](const auto& override) { return override.find(key + "=") != std::string::npos; });
}

PlaceValues place_values(const Experiment& experiment, const Submission& submission) {
  const auto& resources = experiment.resources;
  const auto pods = nodes_of(experiment);
  const auto name = kubernetes_name(experiment.name), job = name + "-" + random_digits(1);
  const bool resumes =
      experiment.checkpoint.resume == Resume::kNever && !is_overridden(submission, "checkpoint.resume");
  Values overrides;
  for (const auto& override : submission.overrides) overrides.push_back(literal(override));
  return {{"job", {job}},
          {"service", only_if(pods > 1, job)},
          {"token", {random_digits(8)}},
          {"pods", {std::to_string(pods)}},
          {"failures", {std::to_string(kFailures * pods)}},
          {"seconds", if_positive(static_cast<int64_t>(std::ceil(resources.seconds)))},
          {"user", if_positive(resources.user)},
          {"image", {resources.image}},
          {"experiment", {literal(submission.experiment)}},
          {"port", {std::to_string(kDefaultRdzvPort)}},
          {"override", overrides},
          {"run", only_if(experiment.run_dir.empty(), name)},
          {"resume", only_if(resumes, "auto")},
          {"gpus", if_positive(resources.gpus)},
          {"cpus", if_positive(cpus_of_node(experiment))},
          {"memory", if_any(resources.memory)},
          {"ephemeral_storage", if_any(resources.ephemeral_storage)},
          {"claim", {resources.claim}}};
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
  const auto values = place_values(experiment, submission);
  return kHeader + (nodes_of(experiment) > 1 ? filled(kRendezvousTemplate, values) : "") + filled(kJobTemplate, values);
}

}  // namespace ddprun

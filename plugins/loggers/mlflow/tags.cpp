// SPDX-License-Identifier: MIT
#include "tags.h"

#include "names.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

namespace ddprun::mlflow {
namespace {

constexpr size_t kMostTagBytes = 5000;  // the limit of older servers; newer ones take 8000

// Finds the user as Python's getpass does, which MLflow uses.
std::string user_name() {
  for (const char* variable : {"LOGNAME", "USER", "LNAME", "USERNAME"}) {
    const char* name = std::getenv(variable);
    if (name && *name) return name;
  }
  std::array<char, 4096> buffer;
  passwd entry{}, *found = nullptr;
  getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found);
  return found ? found->pw_name : std::to_string(geteuid());
}

// Returns the text at `place` ("/git/sha"), or nothing.
std::string text_at(const Json& json, const char* place) {
  const auto pointer = Json::json_pointer(place);
  return json.contains(pointer) && json[pointer].is_string() ? json[pointer].get<std::string>() : "";
}

// Returns the experiment file that the command named; `resume` names none.
std::string experiment_file(const Json& environment) {
  if (!environment.is_object() || !environment.contains("arguments")) return "";
  for (const auto& argument : environment["arguments"]) {
    const auto text = argument.is_string() ? argument.get<std::string>() : "";
    if (text.ends_with(".yaml") || text.ends_with(".yml")) return text;
  }
  return "";
}

void set(Json& tags, const char* name, const std::string& value) {
  if (!value.empty()) tags[name] = cut(value, kMostTagBytes);
}

}  // namespace

Json start_tags(const RunStart& run) {
  std::ifstream file(run.run_dir / "environment.json");
  const auto environment = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto experiment = experiment_file(environment);
  Json tags;
  set(tags, "mlflow.user", user_name());
  set(tags, "mlflow.source.name", experiment.empty() && run.attempt == 0 ? run.name : experiment);
  set(tags, "mlflow.source.type", "LOCAL");
  set(tags, "mlflow.source.git.commit", text_at(environment, "/git/sha"));
  set(tags, "ddprun.run_dir", run.run_dir.string());
  set(tags, "ddprun.host", text_at(environment, "/host"));
  set(tags, "ddprun.attempt", std::to_string(run.attempt));
  set(tags, "ddprun.world_size", std::to_string(run.world_size));
  set(tags, "ddprun.nodes", std::to_string(run.nodes));
  set(tags, "ddprun.device", run.device);
  set(tags, "ddprun.parameters", std::to_string(run.parameters));
  return tags;
}

Json end_tags(const RunEnd& end) {
  Json tags;
  set(tags, "ddprun.status", end.status);
  set(tags, "ddprun.stop_reason", end.stop_reason);
  set(tags, "ddprun.checkpoint", end.checkpoint);
  return tags;
}

}  // namespace ddprun::mlflow

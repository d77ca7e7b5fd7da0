// SPDX-License-Identifier: MIT
#include "server.h"

#include <string_view>

namespace ddprun::mlflow {
namespace {

constexpr auto kApi = "/api/2.0/mlflow/";
constexpr auto kArtifactApi = "/api/2.0/mlflow-artifacts/artifacts";
constexpr std::string_view kProxied = "mlflow-artifacts:/";
constexpr size_t kMostMessageBytes = 300;

// Returns the server's own message on one line, if it has one.
std::string message_of(const HttpAnswer& answer) {
  auto text = "HTTP " + std::to_string(answer.status);
  if (!answer.redirect.empty()) return text + ", to " + answer.redirect.substr(0, answer.redirect.find('?'));
  const auto json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const bool told = json.is_object() && json.contains("message") && json["message"].is_string();
  if (!told) return text;
  auto message = json["message"].get<std::string>();
  for (char& letter : message) {
    if (static_cast<unsigned char>(letter) < ' ') letter = ' ';
  }
  if (message.size() > kMostMessageBytes) message = message.substr(0, kMostMessageBytes) + "...";
  return text + ": " + message;
}

// Returns the code of MLflow's error, "RESOURCE_DOES_NOT_EXIST".
std::string error_code(const HttpAnswer& answer) {
  const auto json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("error_code", "") : "";
}

void check(const HttpAnswer& answer) {
  if (answer.status == 0) throw NotDelivered(answer.problem, 0);
  if (answer.status / 100 == 2) return;
  const bool later = answer.status >= 500 || answer.status == 408 || answer.status == 429;
  if (later) throw NotDelivered(message_of(answer), answer.retry_after_seconds);
  throw Refused(message_of(answer));
}

// Returns the part at `place` of an answer, or throws if no MLflow server would answer so.
Json part(const Json& json, const char* place) {
  const auto pointer = Json::json_pointer(place);
  if (!json.contains(pointer)) throw Refused("the answer is not MLflow's");
  return json[pointer];
}

RemoteRun run_of(const Json& run) {
  try {
    return {part(run, "/info/experiment_id"), part(run, "/info/run_id"), part(run, "/info/artifact_uri")};
  } catch (const Json::exception&) {
    throw Refused("the answer is not MLflow's");
  }
}

Json tag_list(const Json& tags) {
  auto list = Json::array();
  for (const auto& [key, value] : tags.items()) list.push_back({{"key", key}, {"value", value}});
  return list;
}

}  // namespace

std::string Server::experiment_id(const std::string& name) {
  const auto ask = [&] {
    return http_.get(std::string(kApi) + "experiments/get-by-name?experiment_name=" + http_.escaped(name));
  };
  auto answer = ask();
  if (answer.status == 404 && error_code(answer) == "RESOURCE_DOES_NOT_EXIST") {
    const auto made = http_.post(std::string(kApi) + "experiments/create", text_of({{"name", name}}));
    if (error_code(made) != "RESOURCE_ALREADY_EXISTS") check(made);  // another run was faster
    answer = ask();
  }
  check(answer);
  const auto json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (part(json, "/experiment").value("lifecycle_stage", "") == "deleted")
    throw Refused("the experiment \"" + name +
                  "\" is deleted there: restore it (mlflow experiments restore), or name another");
  return part(json, "/experiment/experiment_id");
}

std::optional<RemoteRun> Server::find_run(const std::string& experiment_id, const std::string& tag,
                                          const std::string& value) {
  const auto found = post("runs/search", text_of({{"experiment_ids", Json::array({experiment_id})},
                                                  {"filter", "tags.`" + tag + "` = '" + value + "'"},
                                                  {"max_results", 1}}));
  if (!found.contains("runs") || found["runs"].empty()) return std::nullopt;
  return run_of(found["runs"][0]);
}

RemoteRun Server::create_run(const std::string& experiment_id, const std::string& name, int64_t time_ms,
                             const Json& tags) {
  const auto made = post(
      "runs/create",
      text_of(
          {{"experiment_id", experiment_id}, {"run_name", name}, {"start_time", time_ms}, {"tags", tag_list(tags)}}));
  return run_of(part(made, "/run"));
}

void Server::log_batch(const std::string& run_id, std::span<const Item> items) {
  post("runs/log-batch", batch_request(run_id, items));
}

void Server::update_run(const std::string& run_id, const Json& changes) {
  Json request{{"run_id", run_id}};
  request.update(changes);
  post("runs/update", text_of(request));
}

void Server::put_artifact(const RemoteRun& run, const std::string& path, const std::filesystem::path& file) {
  std::string url = kArtifactApi;
  for (const auto& component : std::filesystem::path(run.artifact_uri.substr(kProxied.size()) + "/" + path)) {
    if (component != "/" && !component.empty()) url += "/" + http_.escaped(component.string());
  }
  check(http_.put(url, file));
}

Json Server::post(const std::string& method, const std::string& body) {
  const auto answer = http_.post(kApi + method, body);
  check(answer);
  return Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
}

bool keeps_artifacts(const RemoteRun& run) {
  return run.artifact_uri.starts_with(kProxied) && !run.artifact_uri.starts_with(std::string(kProxied) + "/");
}

}  // namespace ddprun::mlflow

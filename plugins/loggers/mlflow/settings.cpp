// SPDX-License-Identifier: MIT
#include "settings.h"

#include <curl/curl.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

namespace ddprun::mlflow {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Credentials read_credentials() {
  const auto insecure = environment("MLFLOW_TRACKING_INSECURE_TLS");
  const auto certificates = environment("MLFLOW_TRACKING_SERVER_CERT_PATH");
  return {.username = environment("MLFLOW_TRACKING_USERNAME"),
          .password = environment("MLFLOW_TRACKING_PASSWORD"),
          .token = environment("MLFLOW_TRACKING_TOKEN"),
          .verify_tls = insecure != "true" && insecure != "1",
          .certificates = certificates.empty() ? environment("SSL_CERT_FILE") : certificates};
}

class Url {
 public:
  explicit Url(const std::string& text) : url_(curl_url(), curl_url_cleanup) {
    valid_ = url_ && curl_url_set(url_.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  }
  bool valid() const { return valid_; }

  std::string get(CURLUPart part, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url_.get(), part, &text, flags) != CURLUE_OK) return "";
    const std::string result = text;
    curl_free(text);
    return result;
  }
  void remove(CURLUPart part) { curl_url_set(url_.get(), part, nullptr, 0); }

 private:
  std::unique_ptr<CURLU, void (*)(CURLU*)> url_;
  bool valid_ = false;
};

constexpr auto kNoUri =
    "no server is named: uri: http://<host>:<port>, or the environment's MLFLOW_TRACKING_URI; `mlflow server` starts "
    "one";
constexpr auto kPasswordInFile =
    "holds a name or a password, which every copy of the experiment would show; give them as MLFLOW_TRACKING_USERNAME "
    "and "
    "MLFLOW_TRACKING_PASSWORD";

// The messages quote only the part of `uri` before its scheme ends, which is not secret.
void set_uri(Settings& settings, std::string uri, Options& options) {
  const bool written = options.has("uri");
  if (uri.empty()) return options.reject("uri", kNoUri);
  const std::string from = written ? "" : "MLFLOW_TRACKING_URI ";
  if (!uri.starts_with("http://") && !uri.starts_with("https://")) {
    const auto scheme = uri.substr(0, uri.find(':'));
    return options.reject("uri", from + "must begin with http:// or https://, not with \"" + scheme +
                                     "\": a run logs to a server (`mlflow server --backend-store-uri ...` serves a "
                                     "database or a folder)");
  }
  Url url(uri);
  if (!url.valid()) return options.reject("uri", from + "is not an address such as http://<host>:<port>");
  auto& credentials = settings.credentials;
  if (const auto user = url.get(CURLUPART_USER, CURLU_URLDECODE); !user.empty()) {
    if (written) return options.reject("uri", kPasswordInFile);
    if (credentials.username.empty()) credentials.username = user;
    if (credentials.password.empty()) credentials.password = url.get(CURLUPART_PASSWORD, CURLU_URLDECODE);
  }
  for (const auto part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) url.remove(part);
  settings.uri = url.get(CURLUPART_URL);
  while (settings.uri.ends_with('/')) settings.uri.pop_back();
}

void check_artifacts(const std::vector<std::string>& artifacts, Options& options) {
  for (const auto& name : artifacts) {
    const std::filesystem::path path(name);
    const bool inside = !name.empty() && path.is_relative() && *path.lexically_normal().begin() != "..";
    if (!inside) options.reject("artifacts", "\"" + name + "\" is not a file or folder in the run's folder");
  }
}

}  // namespace

Settings read_settings(Options& options) {
  Settings settings;
  settings.credentials = read_credentials();
  const auto uri = options.get<std::string>("uri", "", "address of the server; MLFLOW_TRACKING_URI if absent");
  set_uri(settings, uri.empty() ? environment("MLFLOW_TRACKING_URI") : uri, options);
  settings.experiment = options.get<std::string>(
      "experiment", environment("MLFLOW_EXPERIMENT_NAME"),
      "MLflow's experiment; MLFLOW_EXPERIMENT_NAME or the name of ddprun's experiment if absent");
  settings.run_name = options.get<std::string>("run_name", "", "the run folder's name if absent");
  settings.artifacts =
      options.get<std::vector<std::string>>("artifacts",
                                            {"config.yaml", "overrides.txt", "environment.json", "run.json",
                                             "summary.json", "tables.jsonl", "events.jsonl", "logs"},
                                            "files and folders of the run folder to send");
  check_artifacts(settings.artifacts, options);
  settings.checkpoint = options.choose("checkpoint", "none", {"none", "best", "last"}, "weights to send at the end");
  settings.timeout_seconds = options.get<int64_t>("timeout", 30, "seconds to wait for the server's answer", {.min = 1});
  return settings;
}

}  // namespace ddprun::mlflow

// SPDX-License-Identifier: MIT
// The part of MLflow's REST API that a run needs.
#pragma once

#include "batch.h"
#include "http.h"

#include <cstdint>
#include <optional>
#include <stdexcept>

namespace ddprun::mlflow {

// There was no answer, or one that a retry may change: the server is down, busy, or refuses us.
struct NotDelivered : std::runtime_error {
  NotDelivered(const std::string& why, long after_seconds)
      : std::runtime_error(why), retry_after_seconds(after_seconds) {}
  long retry_after_seconds;
};

// The server refuses the content of this request.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RemoteRun {
  std::string experiment_id, run_id;
  std::string artifact_uri;  // where its files are stored
};

// All methods throw NotDelivered or Refused.
class Server {
 public:
  Server(const Settings& settings, const std::atomic<bool>& given_up) : http_(settings, given_up) {}

  std::string experiment_id(const std::string& name);  // created if there is none

  // Returns the run that has this tag.
  std::optional<RemoteRun> find_run(const std::string& experiment_id, const std::string& tag, const std::string& value);
  RemoteRun create_run(const std::string& experiment_id, const std::string& name, int64_t time_ms, const Json& tags);

  void log_batch(const std::string& run_id, std::span<const Item> items);
  void update_run(const std::string& run_id, const Json& changes);  // "status", "end_time"

  void put_artifact(const RemoteRun& run, const std::string& path, const std::filesystem::path& file);

 private:
  Json post(const std::string& method, const std::string& body);

  Http http_;
};

// Returns true if artifacts go through the server itself.
bool keeps_artifacts(const RemoteRun& run);

}  // namespace ddprun::mlflow

// SPDX-License-Identifier: MIT
// A server on loopback that answers as MLflow does, or as badly as a test wants. What the real one makes of a run is
// tests/end_to_end/mlflow_test.py's to say.
#pragma once

#include <nlohmann/json.hpp>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::test {

class FakeMlflow {
 public:
  struct Request {
    std::string method, path, authorization, body;
  };
  struct Answer {
    int status = 200;
    std::string body = "{}";
    std::string headers;  // "Retry-After: 1\r\n"
  };
  // Nothing: as MLflow would. Called by one thread at a time.
  using Mood = std::function<std::optional<Answer>(const Request&)>;

  struct Run {
    std::string name, status, experiment;
    std::map<std::string, std::string> params, tags;
    std::vector<nlohmann::json> metrics;
    nlohmann::json end_time;
  };

  explicit FakeMlflow(std::string artifact_root = "mlflow-artifacts:/");
  ~FakeMlflow();
  FakeMlflow(const FakeMlflow&) = delete;
  FakeMlflow& operator=(const FakeMlflow&) = delete;

  std::string uri() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void set_mood(Mood mood);

  // Whether it can be reached; at first it can. What it knows stays.
  void go_away();
  void come_back();

  // Requests have no answer until the mood is set anew, or the server goes away.
  static Answer silence() { return {.status = 0}; }

  // Waits for a request after which this holds; false where that takes a minute.
  bool wait_for(const std::function<bool()>& holds);

  // Read them within wait_for, or while nobody asks.
  std::map<std::string, std::string> experiments;  // id by name
  std::map<std::string, Run> runs;                 // by id
  std::map<std::string, std::string> artifacts;    // content by path
  std::vector<Request> requests;

  // The only run.
  Run& run();

 private:
  void serve();
  void talk(int connection);
  bool read_request(int connection, std::string& buffered, Request& request) const;
  Answer answer(const Request& request);
  Answer rest(const std::string& method, const nlohmann::json& body);
  Answer log_batch(Run& run, const nlohmann::json& body);
  nlohmann::json described(const std::string& id) const;

  std::string artifact_root_;
  int port_ = 0, listener_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  Mood mood_;
  int64_t moods_ = 0;
  bool away_ = true;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
};

}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
#include "fake_mlflow.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <stdexcept>

namespace ddprun::test {
namespace {

using nlohmann::json;

FakeMlflow::Answer refused(int status, const std::string& code, const std::string& message) {
  return {.status = status, .body = json{{"error_code", code}, {"message", message}}.dump()};
}

bool legal(const std::string& name) {
  return std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-. :/").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// The value of a header, or nothing.
std::string header(const std::string& head, const std::string& name) {
  const auto at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const auto begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::string after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  return at == std::string::npos ? "" : text.substr(at + mark.size());
}

}  // namespace

FakeMlflow::FakeMlflow(std::string artifact_root) : artifact_root_(std::move(artifact_root)) { come_back(); }

FakeMlflow::~FakeMlflow() { go_away(); }

void FakeMlflow::set_mood(Mood mood) {
  std::scoped_lock lock(mutex_);
  mood_ = std::move(mood);
  ++moods_;
  changed_.notify_all();
}

void FakeMlflow::come_back() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port_));
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 16) != 0)
    throw std::runtime_error("no port to listen on");
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  std::scoped_lock lock(mutex_);
  away_ = false;
  threads_.emplace_back([this] { serve(); });
}

void FakeMlflow::go_away() {
  {
    std::scoped_lock lock(mutex_);
    if (away_) return;
    away_ = true;
    shutdown(listener_, SHUT_RDWR);
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
    changed_.notify_all();
  }
  threads_.front().join();  // the one that makes others
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  threads_.clear();
  close(listener_);
}

bool FakeMlflow::wait_for(const std::function<bool()>& holds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::minutes(1), holds);
}

FakeMlflow::Run& FakeMlflow::run() {
  if (runs.size() != 1) throw std::runtime_error("there are " + std::to_string(runs.size()) + " runs");
  return runs.begin()->second;
}

void FakeMlflow::serve() {
  while (true) {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    std::scoped_lock lock(mutex_);
    if (away_) {
      close(connection);
      return;
    }
    connections_.push_back(connection);
    threads_.emplace_back([this, connection] { talk(connection); });
  }
}

void FakeMlflow::talk(int connection) {
  std::string buffered;
  for (Request request; read_request(connection, buffered, request); request = {}) {
    std::unique_lock lock(mutex_);
    requests.push_back(request);
    const auto reply = answer(request);
    changed_.notify_all();
    if (reply.status == 0) {
      changed_.wait(lock, [&, before = moods_] { return away_ || moods_ != before; });
      break;
    }
    lock.unlock();
    const auto text = "HTTP/1.1 " + std::to_string(reply.status) +
                      " -\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n" + reply.headers + "\r\n" +
                      reply.body;
    if (send(connection, text.data(), text.size(), MSG_NOSIGNAL) < 0) break;
  }
  std::scoped_lock lock(mutex_);
  std::erase(connections_, connection);
  close(connection);
}

bool FakeMlflow::read_request(int connection, std::string& buffered, Request& request) const {
  const auto read_more = [&] {
    std::array<char, 65536> chunk;
    const auto got = recv(connection, chunk.data(), chunk.size(), 0);
    if (got > 0) buffered.append(chunk.data(), static_cast<size_t>(got));
    return got > 0;
  };
  size_t end = 0;
  while ((end = buffered.find("\r\n\r\n")) == std::string::npos) {
    if (!read_more()) return false;
  }
  const auto head = buffered.substr(0, end + 2);
  const auto length = header(head, "Content-Length");
  const size_t size = end + 4 + (length.empty() ? 0 : std::stoul(length));
  while (buffered.size() < size) {
    if (!read_more()) return false;
  }
  const auto space = head.find(' ');
  request = {.method = head.substr(0, space),
             .path = head.substr(space + 1, head.find(' ', space + 1) - space - 1),
             .authorization = header(head, "Authorization"),
             .body = buffered.substr(end + 4, size - end - 4)};
  buffered.erase(0, size);
  return true;
}

FakeMlflow::Answer FakeMlflow::answer(const Request& request) {
  if (mood_) {
    if (const auto moody = mood_(request)) return *moody;
  }
  if (request.method == "PUT") {
    artifacts[after(request.path, "/artifacts/")] = request.body;
    return {};
  }
  if (request.method == "GET") {
    const auto name = after(request.path, "experiment_name=");
    if (!experiments.contains(name)) return refused(404, "RESOURCE_DOES_NOT_EXIST", "no such experiment");
    return {.body = json{{"experiment", {{"experiment_id", experiments[name]}}}}.dump()};
  }
  return rest(after(request.path, "/api/2.0/mlflow/"), json::parse(request.body));
}

json FakeMlflow::described(const std::string& id) const {
  const auto& experiment = runs.at(id).experiment;
  return {{"info",
           {{"experiment_id", experiment},
            {"run_id", id},
            {"artifact_uri", artifact_root_ + experiment + "/" + id + "/artifacts"}}}};
}

FakeMlflow::Answer FakeMlflow::rest(const std::string& method, const json& body) {
  if (method == "experiments/create") {
    const std::string name = body["name"];
    if (experiments.contains(name)) return refused(400, "RESOURCE_ALREADY_EXISTS", "exists");
    experiments[name] = std::to_string(experiments.size() + 1);
    return {};
  }
  if (method == "runs/search") {
    const std::string filter = body["filter"], word = after(filter, "= '");
    auto found = json::array();
    for (const auto& [id, run] : runs) {
      const auto tag = run.tags.find("ddprun.spool");
      if (tag != run.tags.end() && tag->second + "'" == word) found.push_back(described(id));
    }
    return {.body = json{{"runs", found}}.dump()};
  }
  if (method == "runs/create") {
    const auto id = "r" + std::to_string(runs.size());
    Run& run = runs[id];
    run.experiment = body["experiment_id"];
    run.name = body["run_name"];
    run.status = "RUNNING";
    for (const auto& tag : body["tags"]) run.tags[tag["key"]] = tag["value"];
    return {.body = json{{"run", described(id)}}.dump()};
  }
  const auto run = runs.find(body["run_id"]);
  if (run == runs.end()) return refused(404, "RESOURCE_DOES_NOT_EXIST", "no such run");
  if (method == "runs/log-batch") return log_batch(run->second, body);
  if (method != "runs/update") return refused(404, "ENDPOINT_NOT_FOUND", method);
  run->second.status = body["status"];
  if (body.contains("end_time")) run->second.end_time = body["end_time"];
  return {};
}

// All of it or nothing.
FakeMlflow::Answer FakeMlflow::log_batch(Run& run, const json& body) {
  if (body["metrics"].size() > 1000 || body["params"].size() > 100 || body["tags"].size() > 100 ||
      body.dump().size() > 1'000'000)
    return refused(400, "INVALID_PARAMETER_VALUE", "too much");
  for (const auto& metric : body["metrics"]) {
    if (!legal(metric["key"])) return refused(400, "INVALID_PARAMETER_VALUE", "invalid name");
  }
  for (const auto& param : body["params"]) {
    const auto known = run.params.find(param["key"]);
    if (known != run.params.end() && known->second != param["value"].get<std::string>())
      return refused(400, "INVALID_PARAMETER_VALUE", "changing param values is not allowed");
  }
  for (const auto& param : body["params"]) run.params[param["key"]] = param["value"];
  for (const auto& tag : body["tags"]) run.tags[tag["key"]] = tag["value"];
  for (const auto& metric : body["metrics"]) run.metrics.push_back(metric);
  return {};
}

}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
#include "launch/worker_process.h"

#include "base/log.h"
#include "base/program.h"
#include "base/spawn.h"
#include "launch/launcher.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace ddprun {

namespace fs = std::filesystem;
namespace {

constexpr auto kHint = " (workers are started by ddprun, which sets it)";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') throw UserError(std::string(name) + " is not set" + kHint);
  return value;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

std::string optional_variable(const char* name) { return is_set(name) ? variable(name) : ""; }

template <class Number>
Number number(const char* name, Number lowest) {
  const std::string text = variable(name);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= lowest)) {
    std::ostringstream problem;
    problem << name << "=" << text << ": expected a number of at least " << lowest << kHint;
    throw UserError(problem.str());
  }
  return value;
}

template <class Enum>
Enum one_of(const char* name, Enum fallback) {
  if (!is_set(name)) return fallback;
  const auto word = variable(name);
  if (const auto value = enum_of<Enum>(word)) return *value;
  std::string words;
  for (const auto known : WordsOf<Enum>::kAll) words += (words.empty() ? "" : ", ") + std::string(known);
  throw UserError(std::string(name) + "=" + word + ": expected one of " + words + kHint);
}

void require_below(const char* name, int value, const char* limit_name, int limit) {
  if (value < limit) return;
  std::ostringstream problem;
  problem << name << "=" << value << " must be below " << limit_name << "=" << limit << kHint;
  throw UserError(problem.str());
}

}  // namespace

WorkerPlace read_worker_place() {
  WorkerPlace place;
  place.world_size = number("WORLD_SIZE", 1);
  place.rank = number("RANK", 0);
  place.local_world_size = number("LOCAL_WORLD_SIZE", 1);
  place.local_rank = number("LOCAL_RANK", 0);
  place.attempt = number("DDPRUN_ATTEMPT", 0);
  place.started_at = number("DDPRUN_STARTED_AT", 0.0);
  place.run_dir = variable("DDPRUN_RUN_DIR");
  place.config =
      is_set("DDPRUN_CONFIG") ? std::filesystem::path(variable("DDPRUN_CONFIG")) : place.run_dir / "config.yaml";
  place.store = variable(kStoreVariable);
  place.heartbeat = optional_variable("DDPRUN_HEARTBEAT");
  place.probe_answer = optional_variable("DDPRUN_PROBE");
  place.failure = optional_variable("DDPRUN_FAILURE");
  place.device = one_of("DDPRUN_DEVICE", Device::kCpu);
  place.checkpoint = optional_variable("DDPRUN_CHECKPOINT");
  place.task = one_of("DDPRUN_TASK", Task::kTrain);
  place.split = optional_variable("DDPRUN_SPLIT");
  place.out = optional_variable("DDPRUN_OUT");
  place.inputs = optional_variable("DDPRUN_INPUTS");
  place.nodes = is_set("DDPRUN_NODES") ? number("DDPRUN_NODES", 1) : 1;
  place.gpu = is_set("DDPRUN_GPU") ? number("DDPRUN_GPU", 0) : place.local_rank;
  if (is_set("DDPRUN_SHARED_GPUS")) {
    place.shared_gpus = number("DDPRUN_SHARED_GPUS", 1);
    place.gpu = place.local_rank % place.shared_gpus;
  }
  place.gpus = is_set("DDPRUN_GPUS") ? number("DDPRUN_GPUS", 0) : 1;
  place.address = is_set("DDPRUN_ADDRESS") ? variable("DDPRUN_ADDRESS") : "127.0.0.1";
  require_below("RANK", place.rank, "WORLD_SIZE", place.world_size);
  require_below("LOCAL_RANK", place.local_rank, "LOCAL_WORLD_SIZE", place.local_world_size);
  return place;
}

namespace {

std::string precise(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", seconds);
  return text;
}

}  // namespace

Variables to_environment(const WorkerPlace& place) {
  Variables variables{{"RANK", std::to_string(place.rank)},
                      {"LOCAL_RANK", std::to_string(place.local_rank)},
                      {"WORLD_SIZE", std::to_string(place.world_size)},
                      {"LOCAL_WORLD_SIZE", std::to_string(place.local_world_size)},
                      {"DDPRUN_ATTEMPT", std::to_string(place.attempt)},
                      {"DDPRUN_NODES", std::to_string(place.nodes)},
                      {"DDPRUN_GPUS", std::to_string(place.gpus)},
                      {"DDPRUN_STARTED_AT", precise(place.started_at)}};
  if (place.gpu >= 0) variables.emplace_back("DDPRUN_GPU", std::to_string(place.gpu));
  if (place.shared_gpus > 0) variables.emplace_back("DDPRUN_SHARED_GPUS", std::to_string(place.shared_gpus));
  const std::pair<const char*, std::string> texts[] = {
      {"DDPRUN_RUN_DIR", place.run_dir},       {"DDPRUN_CONFIG", place.config},
      {kStoreVariable, place.store},           {"DDPRUN_ADDRESS", place.address},
      {"DDPRUN_HEARTBEAT", place.heartbeat},   {"DDPRUN_PROBE", place.probe_answer},
      {"DDPRUN_FAILURE", place.failure},       {"DDPRUN_DEVICE", std::string(word_of(place.device))},
      {"DDPRUN_CHECKPOINT", place.checkpoint}, {"DDPRUN_TASK", std::string(word_of(place.task))},
      {"DDPRUN_SPLIT", place.split},           {"DDPRUN_OUT", place.out},
      {"DDPRUN_INPUTS", place.inputs}};
  for (const auto& [name, text] : texts) {
    if (!text.empty()) variables.emplace_back(name, text);
  }
  return variables;
}

void unblock_stop_signals() {
  const auto signals = signal_set(kStopSignals);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

bool write_failure(const fs::path& file, const WorkerFailure& failure) noexcept try {
  const nlohmann::json json = {{"rank", failure.rank},       {"time", failure.time},   {"kind", word_of(failure.kind)},
                               {"message", failure.message}, {"phase", failure.phase}, {"step", failure.step},
                               {"section", failure.section}};
  // Messages may contain any bytes (a path, a foreign library's text): what is not UTF-8 is replaced.
  const auto text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  replace_file(file, text + "\n");
  return true;
} catch (...) {
  return false;  // the exit code still tells the launcher that this rank failed
}

std::optional<WorkerFailure> read_failure(const fs::path& file) try {
  std::ifstream content(file);
  if (!content) return std::nullopt;
  const auto json = nlohmann::json::parse(content);
  WorkerFailure failure;
  failure.rank = json.at("rank").get<int>();
  failure.time = json.at("time").get<double>();
  const auto kind = enum_of<FailureKind>(json.at("kind").get<std::string>());
  if (!kind) return std::nullopt;
  failure.kind = *kind;
  failure.message = json.at("message").get<std::string>();
  failure.phase = json.at("phase").get<std::string>();
  failure.step = json.at("step").get<long>();
  failure.section = json.at("section").get<std::string>();
  return failure;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;  // not ours, or of another version: the exit code must do
}

namespace {

int or_all(const LaunchPlan& plan, int size) { return size > 0 ? size : plan.workers; }

}  // namespace

WorkerPlace worker_place(const LaunchPlan& plan, int index) {
  auto place = plan.place;
  place.rank = plan.first_rank + index;
  place.local_rank = plan.local_rank + index;
  place.world_size = or_all(plan, plan.world_size);
  place.local_world_size = or_all(plan, plan.local_world_size);
  place.attempt = plan.attempt;
  place.run_dir = fs::absolute(plan.run_dir);
  place.started_at = plan.started_at;
  return place;
}

std::vector<std::string> worker_environment(const LaunchPlan& plan, const WorkerPlace& place) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const auto equals = text.find('='); equals != std::string::npos) {
      values[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : plan.environment) values[name] = value;
  for (const auto& [name, value] : to_environment(place)) values[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : values) result.push_back(name + "=" + value);
  return result;
}

std::string place_text(const LaunchPlan& plan, int index) {
  return log::text("attempt ", plan.attempt, ": rank ", plan.first_rank + index, " of ", or_all(plan, plan.world_size),
                   ", local rank ", plan.local_rank + index, " of ", or_all(plan, plan.local_world_size), " on ",
                   host_name(), ", ", plan.device);
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "launch/worker_process.h"

#include "base/on_demand.h"
#include "base/spawn.h"
#include "launch/fields.h"
#include "strict_json.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

namespace ddprun {

namespace fs = std::filesystem;
static void visit_fields(WorkerPlace& place, const auto& visit) {
  visit("attempt", place.attempt);
  visit("rank", place.rank);
  visit("local_rank", place.local_rank);
  visit("local_world_size", place.local_world_size);
  visit("machines", place.machines);
  visit("device", place.device);
  visit("gpu", place.gpu);
  visit("gpus", place.gpus);
  visit("store", place.store);
  visit("address", place.address);
  visit("config", place.config);
  visit("heartbeat", place.heartbeat);
  visit("probe_answer", place.probe_answer);
  visit("failure", place.failure);
  visit("task", place.task);
  visit("split", place.split);
  visit("out", place.out);
  visit("inputs", place.inputs);
  visit("noted", place.noted);
  visit("worst", place.worst);
  visit("started_at", place.started_at);
}

namespace {

constexpr auto kPlaceVariable = "DDPRUN_PLACE";
constexpr auto kHint = "; workers are started by ddprun, which writes it";

bool is_below(int number, int limit) { return number >= 0 && number < limit; }

}  // namespace

void write_place(const fs::path& file, const WorkerPlace& place) {
  std::ofstream stream(file);
  stream << message_of(place).dump(2) << "\n";
  if (!stream.flush()) throw_file_error("write", file, errno);
}

WorkerPlace read_place() {
  const char* file = std::getenv(kPlaceVariable);
  if (!file || !*file) throw UserError(std::string(kPlaceVariable) + " is not set" + kHint);
  const auto problem = [file](const std::string& what) {
    return UserError(std::string(kPlaceVariable) + ": " + file + " " + what + kHint);
  };
  std::ifstream stream(file);
  if (!stream) throw problem("cannot be read");
  try {
    const auto place = record_of<WorkerPlace>(parse_strict_json(std::string(std::istreambuf_iterator(stream), {})));
    if (is_below(place.rank, place.attempt.world_size) && is_below(place.local_rank, place.local_world_size))
      return place;
  } catch (const std::exception& error) {
    throw problem(std::string("is damaged: ") + error.what());
  }
  throw problem("is damaged: a rank that its world does not have");
}

void unblock_stop_signals() {
  const auto signals = signal_set(kStopSignals);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

bool write_failure(const fs::path& file, const WorkerFailure& failure) noexcept try {
  replace_file(file, message_of(failure).dump(2) + "\n");
  return true;
} catch (...) {
  return false;  // the exit code still shows the launcher that this rank failed
}

std::optional<WorkerFailure> read_failure(const fs::path& file) try {
  std::ifstream content(file);
  if (!content) return std::nullopt;
  return reading([&] { return record_of<WorkerFailure>(Message::parse(content)); });
} catch (const ProtocolError&) {
  return std::nullopt;  // not ours, or of another version: the exit code must do
}

std::vector<std::string> worker_environment(const Variables& added, const WorkerPlace& place, const fs::path& file) {
  std::map<std::string, std::string> values;
  for (const auto& text : own_environment()) {
    if (const auto equals = text.find('='); equals != std::string::npos) {
      values[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : added) values[name] = value;
  values[kOnDemandVariable] = "no";  // the launcher has built what the experiment names
  values["RANK"] = std::to_string(place.rank);
  values["LOCAL_RANK"] = std::to_string(place.local_rank);
  values["WORLD_SIZE"] = std::to_string(place.attempt.world_size);
  values["LOCAL_WORLD_SIZE"] = std::to_string(place.local_world_size);
  values["DDPRUN_RUN_DIR"] = place.attempt.run_dir;
  values["DDPRUN_ATTEMPT"] = std::to_string(place.attempt.number);
  values[kPlaceVariable] = file;
  std::vector<std::string> result;
  for (const auto& [name, value] : values) result.push_back(name + "=" + value);
  return result;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "features/record/record_file.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <fstream>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

}  // namespace

void write_recorded_steps(const RecordedSteps& steps, const std::filesystem::path& file) {
  Json records = Json::array();
  for (const auto& [step, record] : steps.records) records.push_back(to_json(record));
  const Json json{
      {"ddprun_replay", kFormat}, {"run", steps.run}, {"facts", steps.facts}, {"records", std::move(records)}};
  replace_file(file, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

RecordedSteps read_recorded_steps(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw UserError(file.string() + " cannot be read");
  try {
    const auto json = Json::parse(stream);
    if (json.at("ddprun_replay") != kFormat) throw std::invalid_argument("it has another format");
    RecordedSteps steps{.run = json.at("run"), .facts = json.at("facts").get<RunFacts>()};
    for (const auto& one : json.at("records")) {
      auto record = record_from(one);
      steps.records[record.step] = std::move(record);
    }
    return steps;
  } catch (const std::exception& error) {
    throw UserError(file.string() + " is no file of `ddprun replay --out`, or it is damaged: " + error.what());
  }
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "device/flight_record.h"

#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

namespace ddprun {
namespace {

// Gloo's entries have no state except this mark.
std::string without_done(const std::string& text) {
  auto json = nlohmann::ordered_json::parse(text);
  auto left = nlohmann::ordered_json::array();
  for (auto& entry : json["entries"]) {
    if (!entry.value("retired", false)) left.push_back(std::move(entry));
  }
  json["entries"] = std::move(left);
  return json.dump(2) + "\n";
}

}  // namespace

FlightRecord gloo_flight_record() {
  return {.pickled = {},
          .under_way = without_done(c10d::dump_fr_trace_json(/*includeCollectives=*/true, /*onlyActive=*/true))};
}

}  // namespace ddprun

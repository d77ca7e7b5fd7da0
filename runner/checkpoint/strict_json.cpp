// SPDX-License-Identifier: MIT
#include "checkpoint/strict_json.h"

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun {

nlohmann::json parse_strict_json(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys_of_open_objects;
  const auto watch = [&](int /*depth*/, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) keys_of_open_objects.emplace_back();
    if (event == Event::object_end) keys_of_open_objects.pop_back();
    if (event == Event::key && !keys_of_open_objects.back().insert(parsed.get<std::string>()).second) {
      throw std::runtime_error("the key " + parsed.dump() + " stands twice");
    }
    return true;
  };
  return nlohmann::json::parse(text, watch);
}

}  // namespace ddprun

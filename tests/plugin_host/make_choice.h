// SPDX-License-Identifier: MIT
// The choice of a plugin as an experiment file would make it: make_choice("sgd", {{"lr", "0.1"}, {"betas", "[0.9,
// 0.99]"}}).
#pragma once

#include "config/experiment.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

inline Value make_value(const std::string& text, const Origin& origin) {
  if (!text.starts_with('[')) return Value::scalar(text, origin);
  auto list = Value::list(origin);
  std::istringstream items(text.substr(1, text.size() - 2));
  for (std::string item; std::getline(items, item, ',');) {
    list.items().push_back(Value::scalar(item.substr(item.find_first_not_of(' ')), origin));
  }
  return list;
}

inline PluginChoice make_choice(std::string plugin,
                                const std::vector<std::pair<std::string, std::string>>& options = {}) {
  PluginChoice choice{
      .plugin = std::move(plugin), .options = Value::map(), .path = "part", .origin = {"test.yaml", 3, 10}};
  int line = 4;
  for (const auto& [key, text] : options) {
    choice.options.set(key, make_value(text, {"test.yaml", line, 20}), {"test.yaml", line, 5});
    ++line;
  }
  return choice;
}

}  // namespace ddprun

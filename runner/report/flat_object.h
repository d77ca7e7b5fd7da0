// SPDX-License-Identifier: MIT
// The plain values of one JSON object, without what is nested in it: a row of metrics, or the head of a large table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

struct FlatObject {
  std::vector<std::pair<std::string, double>> numbers;  // NaN for null: a number that was not finite
  std::vector<std::pair<std::string, std::string>> texts;

  // Nothing where the text is no JSON object, or only a part of one.
  static std::optional<FlatObject> parse(std::string_view text);

  double number(std::string_view name, double fallback = 0) const;
  int64_t integer(std::string_view name, int64_t fallback = 0) const;
  std::string_view text(std::string_view name) const;  // empty where there is none
};

}  // namespace ddprun

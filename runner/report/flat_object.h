// SPDX-License-Identifier: MIT
// The scalar members of one JSON object, without nested ones: a row of metrics, or the head of a large table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

struct FlatObject {
  std::vector<std::pair<std::string, double>> numbers;  // NaN for null, which stands for a number that was not finite
  std::vector<std::pair<std::string, std::string>> texts;

  // Returns nothing if the text is not a whole JSON object.
  static std::optional<FlatObject> parse(std::string_view text);

  double number(std::string_view name, double fallback = 0) const;
  int64_t integer(std::string_view name, int64_t fallback = 0) const;
  std::string_view text(std::string_view name) const;  // empty if there is none
};

}  // namespace ddprun

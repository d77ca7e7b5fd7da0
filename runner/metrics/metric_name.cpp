// SPDX-License-Identifier: MIT
#include "metrics/metric_name.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun {
namespace {

constexpr auto kTaken =
    std::to_array<std::string_view>({"loss", "time", "attempt", "split", "epoch", "step", "samples", "nonfinite", "lr",
                                     "samples_per_second", "grad_norm", "loss_scale", "overflows", "skipped_steps"});
constexpr size_t kLongest = 200;

bool is_utf8(const std::string& text) {
  if (std::ranges::all_of(text, [](unsigned char byte) { return byte < 0x80; })) return true;
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

void require_metric_name(const std::string& name) {
  const auto refuse = [](const std::string& problem) { throw UserError("model: a metric of step() " + problem); };
  if (name.empty()) refuse("has an empty name");
  if (!is_utf8(name)) refuse("has a name that is not UTF-8");
  if (name.size() > kLongest)
    refuse("has a name of " + std::to_string(name.size()) + " bytes; at most " + std::to_string(kLongest) +
           " are allowed: " + name.substr(0, 20) + "...");
  if (std::ranges::any_of(name, [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; }))
    refuse("has a name with a control character, such as a newline: " + nlohmann::json(name).dump());
  if (std::ranges::find(kTaken, name) == kTaken.end()) return;
  std::string taken;
  for (const auto other : kTaken) taken += (taken.empty() ? "" : ", ") + std::string(other);
  refuse("is called " + name + ", which rows have for something else; choose another name than " + taken);
}

}  // namespace ddprun

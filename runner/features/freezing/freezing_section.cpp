// SPDX-License-Identifier: MIT
#include "config/feature_section.h"
#include "config/interval.h"
#include "config/sections.h"
#include "weights/freezing_config.h"

#include <optional>
#include <string>
#include <utility>

namespace ddprun {
namespace {

// Returns the epochs or steps after which parameters are unfrozen: 5ep, 300st, or 5 for epochs.
std::optional<Interval> parse_unfreezing(const std::string& text) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  const auto interval = parse_interval(is_number ? text + "ep" : text);
  return interval && interval->seconds == 0 ? interval : std::nullopt;
}

void read_unfreeze(Options& options, FreezingConfig& freezing) {
  const auto value = options.subtree(
      "unfreeze", "which frozen parameters train after so many epochs or steps: {5ep: \"layer2.*\", 800st: \"*\"}",
      "map of string | list of string");
  if (!options.has("unfreeze")) return;
  if (!value.is_map()) return options.reject("unfreeze", "expected {5ep: \"layer2.*\"}, found " + describe(value));
  for (const auto& entry : value.entries()) {
    const auto after = parse_unfreezing(entry.key);
    if (!after)
      options.reject("unfreeze", "expected epochs or steps such as 5ep or 800st, found \"" + entry.key + "\"");
    auto patterns = patterns_in(entry.value, options, "unfreeze");
    if (after) freezing.unfreeze.push_back({*after, std::move(patterns)});
  }
  if (freezing.freeze.patterns.empty())
    options.reject("unfreeze", "nothing is frozen: pretrained.freeze says what is, such as freeze: [\"layer1.*\"]");
}

FreezingConfig read_freezing(Options& options) {
  FreezingConfig freezing;
  freezing.freeze = read_patterns(options, "freeze", "parameters that are not trained: [\"conv1.*\", \"layer1.*\"]");
  read_unfreeze(options, freezing);
  return freezing;
}

}  // namespace

FeatureSection section_of_freezing() { return feature_section<read_freezing>("pretrained"); }

}  // namespace ddprun

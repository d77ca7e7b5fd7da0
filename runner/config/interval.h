// SPDX-License-Identifier: MIT
// Parses the texts that stand for a length of training.
#pragma once

#include "config/experiment.h"

#include <ddprun/options.h>

#include <optional>
#include <string_view>

namespace ddprun {

// Parses "1ep", "200st", "10min", "30s", "2h"; returns nothing for another text, or less than one.
std::optional<Interval> parse_interval(std::string_view text);

// Returns "90min", "2h", "01:30:00" or "1-12:00:00" in seconds; nothing for another text, or zero.
std::optional<double> parse_duration(std::string_view text);

// Parses "5" as a count, "0.1" as a share, "all" as neither; returns nothing for another text.
std::optional<Limit> parse_limit(std::string_view text);

// Reads an option that holds an interval, or `nothing` ("never", "none") for none. Notes another text in `options`. If
// `clock` is set, the interval may be a time.
Interval read_interval(Options& options, std::string_view name, const std::string& fallback, const std::string& nothing,
                       bool clock, std::string_view help);

// Reads an option that holds a duration, in seconds; 0 for "none". Notes another text in `options`.
double read_duration(Options& options, std::string_view name, std::string_view help);

}  // namespace ddprun

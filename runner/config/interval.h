// SPDX-License-Identifier: MIT
// The texts that stand for a length of training.
#pragma once

#include "config/experiment.h"

#include <ddprun/options.h>

#include <optional>
#include <string_view>

namespace ddprun {

// "1ep", "200st", "10min", "30s", "2h"; nothing for another text, or less than one.
std::optional<Interval> parse_interval(std::string_view text);

// "90min", "2h", "01:30:00" or "1-12:00:00" in seconds; nothing for another text, or zero.
std::optional<double> parse_duration(std::string_view text);

// "5" as a count, "0.1" as a share, "all" as neither; nothing for another text.
std::optional<Limit> parse_limit(std::string_view text);

// An option that holds an interval, or `nothing` ("never", "none") for none. Another text is noted in `options`. With
// `clock` the interval may be a time.
Interval read_interval(Options& options, std::string_view name, const std::string& fallback, const std::string& nothing,
                       bool clock, std::string_view help);

// An option that holds a duration, in seconds; 0 for "none". Another text is noted in `options`.
double read_duration(Options& options, std::string_view name, std::string_view help);

}  // namespace ddprun

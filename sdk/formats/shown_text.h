// SPDX-License-Identifier: MIT
// Names in an experiment or in a run's folder may be anybody's, and a terminal obeys what it is shown.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// The text without what a terminal would obey, escape codes and other control characters but those `kept`: a ? in their
// place.
std::string shown(std::string_view text, std::string_view kept = {});

}  // namespace ddprun

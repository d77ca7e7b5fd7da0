// SPDX-License-Identifier: MIT
// A YAML file with ${places} for values, which keeps the look of the file that is made from it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// The values of each place.
using PlaceValues = std::map<std::string, std::vector<std::string>, std::less<>>;

// Returns the template with its places filled. A line is repeated for each value of its places, and left out if one of
// them has none; lines that begin with ## are left out, too. A place in "quotes" takes any text, another one a number,
// a list of such, or nothing. Throws std::logic_error for a place without an entry in `values`, and for other text.
std::string filled(std::string_view yaml_template, const PlaceValues& values);

// Returns what stands between double quotes in YAML for this text, which is UTF-8.
std::string yaml_quotable(std::string_view text);

}  // namespace ddprun

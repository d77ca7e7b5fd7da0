// SPDX-License-Identifier: MIT
// Names in an experiment or a run folder may come from anyone, and a terminal obeys the escape codes it is shown.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// Returns the text with a ? in place of each escape code or control character, except those in `kept`.
std::string shown(std::string_view text, std::string_view kept = {});

// Returns the length in bytes of the UTF-8 sequence that starts the text, which is not empty; 0 if it is not one.
size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// Returns the text with the replacement character in place of each part that is not UTF-8, as reports and JSON files
// show it.
std::string to_utf8(const std::string& text);

}  // namespace ddprun

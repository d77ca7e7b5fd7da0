// SPDX-License-Identifier: MIT
// The page around the data.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ddprun {

// Stands near the beginning of every report: what is written without it is not ours.
inline constexpr std::string_view kReportMark = "<meta name=\"generator\" content=\"ddprun report\">";

// The same of a page of data.
inline constexpr std::string_view kDataMark = "<meta name=\"generator\" content=\"ddprun data\">";

// One HTML file that needs nothing else. No text of the data can end the element it stands in, and no script runs but
// our own: the page allows those by their digests, and forbids every request.
std::string render_page(const std::string& title, const nlohmann::ordered_json& data,
                        std::string_view mark = kReportMark);

// For HTML, in an element or in quotes.
std::string escape_html(std::string_view text);

}  // namespace ddprun

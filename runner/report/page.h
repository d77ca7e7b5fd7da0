// SPDX-License-Identifier: MIT
// The page around the data: report.html, and that of `ddprun data`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Stands near the beginning of every report: a file without it is not ours.
inline constexpr std::string_view kReportMark = "<meta name=\"generator\" content=\"ddprun report\">";

// Marks a page of data in the same way.
inline constexpr std::string_view kDataMark = "<meta name=\"generator\" content=\"ddprun data\">";

// Returns one self-contained HTML file. No text of the data can end the element it stands in, and only our own scripts
// run: the page allows them by their digests, and forbids every request.
std::string render_page(const std::string& title, const nlohmann::ordered_json& data,
                        std::string_view mark = kReportMark);

// Escapes text for HTML, in an element or in quotes.
std::string escape_html(std::string_view text);

std::string base64(std::string_view bytes);

// The files that report.html is made of, as they were when the program was built.
struct PagePart {
  std::string_view name;  // "page.css"
  std::string_view text;
};

const std::vector<PagePart>& page_parts();  // in the order of CMakeLists.txt

}  // namespace ddprun

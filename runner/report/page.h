// SPDX-License-Identifier: MIT
// The page around the data: report.html, and those of `ddprun data`, `ddprun predict` and `ddprun replay`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// What a page shows. Its mark stands near the beginning of it: a file without that is not ours.
struct PageKind {
  std::string_view key;   // of what is shown, in the page's data
  std::string_view name;  // for people
  std::string_view mark;
};
inline constexpr PageKind kReportPage{"runs", "report", "<meta name=\"generator\" content=\"ddprun report\">"};
inline constexpr PageKind kDataPage{"data", "page of data", "<meta name=\"generator\" content=\"ddprun data\">"};
inline constexpr PageKind kPredictionsPage{"predicted", "page of predictions",
                                           "<meta name=\"generator\" content=\"ddprun predict\">"};
inline constexpr PageKind kStepPage{"step", "page of a step", "<meta name=\"generator\" content=\"ddprun replay\">"};

// Returns one self-contained HTML file. No text of the data can end the element it stands in, and only our own scripts
// run: the page allows them by their digests, and forbids every request.
std::string render_page(const std::string& title, const nlohmann::ordered_json& data,
                        const PageKind& kind = kReportPage);

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

// SPDX-License-Identifier: MIT
// The page around the data: report.html, and those of `ddprun data`, `ddprun predict` and `ddprun replay`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// The command that writes a page. Its mark stands near the beginning of the page: a file without that is not ours.
struct PageKind {
  std::string_view command;
  std::string_view name;  // of the page, for people

  std::string mark() const { return "<meta name=\"generator\" content=\"ddprun " + std::string(command) + "\">"; }
};
inline constexpr PageKind kReportPage{"report", "report"}, kDataPage{"data", "page of data"},
    kPredictionsPage{"predict", "page of predictions"}, kStepPage{"replay", "page of a step"};

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

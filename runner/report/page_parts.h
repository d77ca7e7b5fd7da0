// SPDX-License-Identifier: MIT
// The files that report.html is made of, as they were when the program was built.
#pragma once

#include <string_view>
#include <vector>

namespace ddprun {

struct PagePart {
  std::string_view name;  // "page.css"
  std::string_view text;
};

const std::vector<PagePart>& page_parts();  // in the order of CMakeLists.txt

}  // namespace ddprun

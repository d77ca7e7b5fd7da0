// SPDX-License-Identifier: MIT
// One line at the bottom of a terminal that is drawn over and over; ordinary lines are printed above it.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::console {

class ProgressBar {
 public:
  // Draws "<label>  45% [####----] 387/860  <detail>", cut to the terminal's width.
  void draw(const std::string& label, int64_t done, int64_t total, const std::string& detail);

  // Takes the bar away, so that a line can be printed in its place.
  void clear();

 private:
  bool shown_ = false;
};

// The bar's text for a terminal of `width` columns: what does not fit is left out from the end, the bar itself first
// shrinks.
std::string bar_text(const std::string& label, int64_t done, int64_t total, const std::string& detail, int width);

}  // namespace ddprun::console

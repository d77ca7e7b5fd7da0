// SPDX-License-Identifier: MIT
// One line at the bottom of a terminal that is redrawn in place; ordinary lines are printed above it.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::console {

class ProgressBar {
 public:
  // Draws "<label>  45% [####----] 387/860  <detail>", cut to the terminal's width.
  void draw(const std::string& label, int64_t done, int64_t total, const std::string& detail);

  // Removes the bar, so that a line can be printed in its place.
  void clear();

 private:
  bool shown_ = false;
};

// Returns the bar's text for a terminal of `width` columns: the bar shrinks first, then the end is cut off.
std::string bar_text(const std::string& label, int64_t done, int64_t total, const std::string& detail, int width);

}  // namespace ddprun::console

// SPDX-License-Identifier: MIT
// Numbers and times as people read them, and what the terminal can show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::console {

std::string grouped(int64_t number);                        // "1,199,882"
std::string duration(double seconds);                       // "8.3 s", "1 min 23 s", "2 h 05 min"
std::string clock(double seconds);                          // "0:08", "1:02:03"
std::string part_time(double seconds);                      // "0.4 s", "1:23"
std::string metric(const std::string& name, double value);  // "loss 0.0512", "accuracy 98.43 %"
std::string metric_value(const std::string& name, double value);
std::string memory(double bytes);  // "1.4 GB"

int terminal_width();     // columns of standard output; where it is no terminal, as many as anybody needs
bool is_live_terminal();  // standard output is a terminal that can redraw a line (and TERM is not "dumb")

// The beginning of a text that is too wide, with three dots.
std::string shortened(const std::string& text, size_t width);

// The text in lines that are no wider where no single item is: items end with ", ", "; " or two spaces.
std::vector<std::string> broken_lines(const std::string& text, size_t width);

// How a person at this terminal names the path: from the current folder on where it lies below it, elsewhere and in a
// file absolute.
std::string path_text(const std::filesystem::path& path);

// The text in a colour where standard output is a terminal that shows some, and NO_COLOR is not set (no-color.org).
enum class Colour { kGood, kBad, kStrong };
std::string painted(const std::string& text, Colour colour);

}  // namespace ddprun::console

// SPDX-License-Identifier: MIT
// Numbers, times and texts formatted for a terminal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::console {

std::string grouped(int64_t number);                           // "1,199,882"
std::string counted(int64_t number, const std::string& what);  // "1 step", "1,200 steps"
std::string epochs_text(double epochs);                        // "1 epoch", "0.051 epochs", "4,000 epochs"
std::string duration(double seconds);                          // "8.3 s", "1 min 23 s", "2 h 05 min"
std::string clock(double seconds);                             // "0:08", "1:02:03"
std::string part_time(double seconds);                         // "0.4 s", "1:23"
std::string metric(const std::string& name, double value);     // "loss 0.0512", "accuracy 98.43 %"
std::string metric_value(const std::string& name, double value);
std::string memory(double bytes);                        // "1.4 GB"
std::string world_text(int64_t workers, int64_t nodes);  // "2 x 4", "3 workers on 2 nodes"
std::string operations(double a_second);                 // "1.4 TFLOP/s"
std::string share_text(double share);                    // "41.2 %"

int terminal_width();     // columns of standard output; if it is not a terminal, as many as anybody needs
bool is_live_terminal();  // standard output is a terminal that can redraw a line (and TERM is not "dumb")

// Returns the number of characters that a terminal shows for UTF-8 text.
size_t shown_width(const std::string& text);

using Values = std::vector<std::pair<std::string, double>>;

// Leaves out the metrics of each class, "f1/cat", where a metric has more than three of them: they would flood a line.
// Names begin with `split`, "val/" or nothing. Returns whether there were any.
bool leave_out_classes(Values& values, const std::string& split);

// Breaks the text into lines of at most `width`, unless a single item is wider: items end with ", ", "; " or two
// spaces.
std::vector<std::string> broken_lines(const std::string& text, size_t width);

// Returns the path as people at this terminal would name it: relative if it is below the current folder; absolute
// otherwise and in a file.
std::string path_text(const std::filesystem::path& path);

// Colours the text if standard output is a terminal with colours and NO_COLOR is not set (no-color.org).
enum class Colour { kGood, kBad, kStrong };
std::string painted(const std::string& text, Colour colour);

}  // namespace ddprun::console

// SPDX-License-Identifier: MIT
// Text for a terminal of 80 columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr size_t kTextWidth = 80;

// As many columns as a terminal gives a UTF-8 text, for most scripts of the world.
size_t width_of(std::string_view text);

// At most so wide, with "..." at the end where something is left out.
std::string cut_back(const std::string& text, size_t width);

// The words of `text` in lines of at most kTextWidth where no single word is wider, each line but the first indented;
// `column` is where the first one starts.
std::string wrapped(const std::string& text, size_t column, size_t indent);

// The text as lines of its own, all of them indented.
std::string paragraph(const std::string& text, size_t indent);

// With spaces behind it, up to that many columns.
std::string padded(const std::string& text, size_t width);

}  // namespace ddprun

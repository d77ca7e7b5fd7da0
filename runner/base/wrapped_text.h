// SPDX-License-Identifier: MIT
// Text for a terminal of 80 columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr size_t kTextWidth = 80;

// Returns the columns that a terminal gives a UTF-8 text, for most scripts of the world.
size_t width_of(std::string_view text);

// Cuts the text to this width, with "..." at the end if something is left out.
std::string cut_back(const std::string& text, size_t width);

// Wraps the words of `text` to lines of at most kTextWidth, unless a single word is wider. Indents all lines but the
// first, which starts at `column`.
std::string wrapped(const std::string& text, size_t column, size_t indent);

// Wraps the text to lines of its own, all of them indented.
std::string paragraph(const std::string& text, size_t indent);

// Appends spaces up to this width.
std::string padded(const std::string& text, size_t width);

std::string grouped(int64_t count);  // "60,000"

}  // namespace ddprun

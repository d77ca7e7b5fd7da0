// SPDX-License-Identifier: MIT
// Texts as UTF-8, which is what files are, and as code points.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::text {

constexpr char32_t kCodePoints = 0x110000;  // all are below it

// The code points of UTF-8; a byte order mark at the beginning is none of them. Throws UserError where the bytes are no
// UTF-8: its text begins with `place`, the file.
std::u32string decode_utf8(std::string_view bytes, const std::string& place);

std::string encode_utf8(char32_t code_point);

}  // namespace ddprun::text

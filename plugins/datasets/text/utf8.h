// SPDX-License-Identifier: MIT
// Conversion between UTF-8, as in files, and code points.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::text {

constexpr char32_t kCodePoints = 0x110000;  // all are below it

// Decodes UTF-8 to code points, without a byte order mark at the beginning. Throws UserError if the bytes are not
// UTF-8; its text begins with `place`, the file.
std::u32string decode_utf8(std::string_view bytes, const std::string& place);

std::string encode_utf8(char32_t code_point);

}  // namespace ddprun::text

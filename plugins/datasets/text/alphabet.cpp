// SPDX-License-Identifier: MIT
#include "alphabet.h"

#include "utf8.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace ddprun::text {
namespace {

struct Range {
  char32_t first, last;
};

// Blanks, marks that join the character before them, and characters without a form.
constexpr auto kUnseen = std::to_array<Range>({{0x00, 0x1F},
                                               {0x7F, 0xA0},
                                               {0xAD, 0xAD},
                                               {0x300, 0x36F},
                                               {0x2000, 0x200F},
                                               {0x2028, 0x202F},
                                               {0x205F, 0x206F},
                                               {0x3000, 0x3000},
                                               {0xE000, 0xF8FF},
                                               {0xFE00, 0xFE0F},
                                               {0xFEFF, 0xFEFF},
                                               {0xE0000, 0x10FFFF}});

}  // namespace

std::string readable(char32_t character) {
  if (character == U' ') return "space";
  if (character == U'\n') return "\\n";
  if (character == U'\r') return "\\r";
  if (character == U'\t') return "\\t";
  const bool unseen = std::ranges::any_of(
      kUnseen, [&](const Range& range) { return character >= range.first && character <= range.last; });
  if (!unseen) return encode_utf8(character);
  char escaped[16];
  std::snprintf(escaped, sizeof escaped, character > 0xFFFF ? "\\U%08x" : "\\u%04x", static_cast<unsigned>(character));
  return escaped;
}

Alphabet::Alphabet(std::u32string_view training, std::u32string_view others) : classes_(kCodePoints, -1) {
  for (const char32_t character : training) classes_[character] = 0;
  for (char32_t character = 0; character < kCodePoints; ++character) {
    if (classes_[character] < 0) continue;
    classes_[character] = static_cast<int32_t>(names_.size());
    names_.push_back(readable(character));
  }
  const bool complete = std::ranges::all_of(others, [this](char32_t character) { return classes_[character] >= 0; });
  if (complete) return;
  std::ranges::replace(classes_, -1, static_cast<int32_t>(names_.size()));
  names_.emplace_back("unknown");
}

}  // namespace ddprun::text

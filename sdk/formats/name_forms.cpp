// SPDX-License-Identifier: MIT
#include "name_forms.h"

#include "shown_text.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

namespace ddprun {
namespace {

// A letter, and the marks that follow it.
struct Letter {
  char32_t base = 0;
  std::u32string marks = {};

  bool operator==(const Letter&) const = default;
};
using Letters = std::vector<Letter>;

// Takes UTF-8.
std::u32string code_points(std::string_view text) {
  std::u32string result;
  for (const char byte : text) {
    const auto bits = static_cast<unsigned char>(byte);
    if ((bits & 0xC0) == 0x80 && !result.empty()) {
      result.back() = result.back() << 6 | (bits & 0x3F);
    } else {
      result += bits < 0x80 ? bits : bits & (bits >= 0xF0 ? 0x07 : bits >= 0xE0 ? 0x0F : 0x1F);
    }
  }
  return result;
}

bool is_between(char32_t point, char32_t first, char32_t last) { return first <= point && point <= last; }

bool is_blank(char32_t point) {
  return point <= ' ' || point == 0xA0 || is_between(point, 0x2000, 0x200F) || point == 0x202F || point == 0x205F ||
         point == 0x2060 || point == 0x3000 || point == 0xFEFF;
}

// Accents, the marks of voiced kana, and the vowels and ends of Korean syllables that are spelt out.
bool is_mark(char32_t point) {
  return is_between(point, 0x300, 0x36F) || point == 0x3099 || point == 0x309A || is_between(point, 0x1161, 0x11FF);
}

// Returns whether Unicode may have letters with accents of their own here: the alphabets from Latin on, kana, Korean.
bool may_hold_marks(char32_t point) {
  return is_between(point, 0xC0, 0x1FFF) || is_between(point, 0x3040, 0x30FF) || is_between(point, 0xAC00, 0xD7A3);
}

// Full-width letters, of Chinese and Japanese keyboards, count as the others.
char32_t lower(char32_t point) {
  if (is_between(point, 0xFF01, 0xFF5E)) point -= 0xFF01 - '!';
  static const std::unique_ptr<__locale_struct, void (*)(locale_t)> locale(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr),
                                                                           freelocale);
  const auto wide = static_cast<wint_t>(point);
  return static_cast<char32_t>(locale ? towlower_l(wide, locale.get()) : point < 0x80 ? towlower(wide) : wide);
}

// Returns the letters of a name, without what makes no difference to people but for the form of accents.
Letters letters_of(const std::string& name) {
  Letters letters;
  for (const auto point : code_points(name)) {
    if (is_blank(point)) continue;
    if (is_mark(point) && !letters.empty())
      letters.back().marks += point;
    else
      letters.push_back({lower(point)});
  }
  const bool is_number = std::ranges::all_of(
      letters, [](const Letter& one) { return is_between(one.base, '0', '9') && one.marks.empty(); });
  if (is_number)
    while (letters.size() > 1 && letters.front().base == '0') letters.erase(letters.begin());
  return letters;
}

// Returns the letter below the accent, for U+00C0 to U+017F, in lower case; 0: unknown.
char32_t base_of(char32_t point) {
  constexpr std::string_view kBases =
      "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.yaaaaaaccccccccdd..eeeeeeeeeegggg"
      "gggghh..iiiiiiiii...jjkk.llllll....nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz.";
  const char base = is_between(point, 0xC0, 0x17F) ? kBases[point - 0xC0] : '.';
  return base == '.' ? 0 : static_cast<char32_t>(base);
}

// Returns whether the one is a letter with its accents, and the other the same with the accents apart.
bool is_composed_of(const Letter& one, const Letter& apart) {
  if (!one.marks.empty() || apart.marks.empty() || !may_hold_marks(one.base)) return false;
  const auto base = base_of(one.base);
  return base == 0 || base == apart.base;
}

bool are_alike(const Letters& one, const Letters& other) {
  return std::ranges::equal(one, other, [](const Letter& a, const Letter& b) {
    return a == b || is_composed_of(a, b) || is_composed_of(b, a);
  });
}

// Returns a text that alike names have in common, though others may have it too.
std::u32string skeleton_of(const Letters& letters) {
  std::u32string text;
  for (const auto& [base, marks] : letters) text += marks.empty() && !may_hold_marks(base) ? base : U'?';
  return text;
}

}  // namespace

std::string name_flaw(const std::string& name) {
  if (!is_utf8(name)) return "is not UTF-8";
  return shown(name) == name ? "" : "has a control character";
}

bool are_alike(const std::string& one, const std::string& other) {
  return are_alike(letters_of(one), letters_of(other));
}

std::optional<std::pair<std::string, std::string>> find_alike(const std::vector<std::string>& names) {
  struct Named {
    Letters letters;
    const std::string* name;
    bool has_marks;
  };
  std::map<std::u32string, std::vector<Named>> groups;  // of names that may be alike
  for (const auto& name : names) {
    auto letters = letters_of(name);
    const bool has_marks = std::ranges::any_of(letters, [](const Letter& one) { return !one.marks.empty(); });
    auto& group = groups[skeleton_of(letters)];
    for (const auto& other : group) {
      const bool alike = has_marks || other.has_marks ? are_alike(letters, other.letters) : letters == other.letters;
      if (alike) return std::pair(*other.name, name);
    }
    group.push_back({std::move(letters), &name, has_marks});
  }
  return std::nullopt;
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// The characters of a text, numbered: the classes that a model chooses the next one from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::text {

class Alphabet {
 public:
  // Takes the characters of `training`, ordered by code point. If `others` have further ones, these share one more
  // class, the last: unknown.
  Alphabet(std::u32string_view training, std::u32string_view others);

  int32_t class_of(char32_t character) const { return classes_[character]; }

  // Returns each class in readable form: "a", "space", "
  // ", "\u200b", "unknown".
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<int32_t> classes_;  // per code point
  std::vector<std::string> names_;
};

// Returns one character so that it can be read alone, in a table.
std::string readable(char32_t character);

}  // namespace ddprun::text

// SPDX-License-Identifier: MIT
#include "submit/quote.h"

#include <algorithm>
#include <cstdio>

namespace ddprun {
namespace {

bool is_letter(char letter) { return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'); }
bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// True for letters that need no quotes in any shell.
bool is_plain(char letter) {
  return is_letter(letter) || is_digit(letter) || std::string("_-./:=,@%+").find(letter) != std::string::npos;
}

}  // namespace

std::string shell_word(const std::string& text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string word = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      word += "'\\''";
    } else {
      word += letter;
    }
  }
  return word + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string yaml_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') quoted += '\\';
    if (byte < 0x20 || byte == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", unsigned{byte});
      quoted += escape;
    } else {
      quoted += letter;
    }
  }
  return quoted + "\"";
}

std::string kubernetes_name(const std::string& text) {
  constexpr size_t kMost = 40;  // of the 63 of a host name: a pod's name ends with its number
  std::string name;
  for (const char letter : text.substr(0, kMost)) {
    const bool kept = is_letter(letter) || is_digit(letter);
    name += !kept ? '-' : is_letter(letter) ? static_cast<char>(letter | 0x20) : letter;
  }
  while (!name.empty() && !is_letter(name.front())) name.erase(0, 1);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "ddprun" : name;
}

}  // namespace ddprun

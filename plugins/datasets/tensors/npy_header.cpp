// SPDX-License-Identifier: MIT
#include "npy_header.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <stdexcept>
#include <utility>

namespace ddprun::arrays {
namespace {

constexpr size_t kMostDimensions = 64;  // NumPy's own limit

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  NpyHeader parse() {
    NpyHeader header;
    std::set<std::string> keys;
    expect('{');
    while (!take('}')) {
      const auto key = string();
      expect(':');
      if (!keys.insert(key).second) throw std::runtime_error("the key '" + key + "' appears twice");
      value_of(key, header);
      if (take('}')) break;
      expect(',');
    }
    skip_spaces();
    if (!rest_.empty()) wrong("its end");
    for (const auto* key : {"descr", "fortran_order", "shape"}) {
      if (!keys.contains(key)) throw std::runtime_error("the key '" + std::string(key) + "' is missing");
    }
    return header;
  }

 private:
  void value_of(const std::string& key, NpyHeader& header) {
    if (key == "descr") {
      skip_spaces();
      if (rest_.starts_with('[')) throw std::runtime_error("it holds records of several fields");
      header.descr = string();
    } else if (key == "fortran_order") {
      header.fortran_order = boolean();
    } else if (key == "shape") {
      header.shape = tuple();
    } else {
      throw std::runtime_error("unknown key '" + key + "'");
    }
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size())); }

  [[noreturn]] void wrong(const std::string& expected) const {
    throw std::runtime_error("expected " + expected + ", found \"" + std::string(rest_.substr(0, 20)) + "\"");
  }

  bool take(char symbol) {
    skip_spaces();
    if (!rest_.starts_with(symbol)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char symbol) {
    if (!take(symbol)) wrong(std::string("a ") + symbol);
  }

  std::string string() {
    skip_spaces();
    const char quote = rest_.starts_with('"') ? '"' : '\'';
    const auto end = rest_.starts_with(quote) ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) wrong("a string");
    const std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    wrong("True or False");
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> extents;
    expect('(');
    while (!take(')')) {
      extents.push_back(count());
      if (extents.size() > kMostDimensions) throw std::runtime_error("its shape has more than 64 dimensions");
      if (extents.size() > 1 && take(')')) break;  // Python's tuple of one needs its comma
      expect(',');
    }
    return extents;
  }

  int64_t count() {
    skip_spaces();
    int64_t number = -1;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    const bool padded = rest_.starts_with('0') && end != rest_.data() + 1;  // "02" is no number to Python
    if (error != std::errc() || number < 0 || padded) wrong("an extent");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return number;
  }

  std::string_view rest_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) { return Parser(text).parse(); }

}  // namespace ddprun::arrays

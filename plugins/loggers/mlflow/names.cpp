// SPDX-License-Identifier: MIT
#include "names.h"

#include "shown_text.h"

#include <cctype>
#include <utility>

namespace ddprun::mlflow {
namespace {

constexpr size_t kMostNameBytes = 250;
constexpr size_t kRoomForNumber = 8;

// Letters of other alphabets are left to the server to judge.
bool allowed(char letter, bool utf8) {
  const auto byte = static_cast<unsigned char>(letter);
  if (byte >= 0x80) return utf8;
  return std::isalnum(byte) || std::string_view("_-. :").find(letter) != std::string_view::npos;
}

void add_component(std::string& path, std::string component) {
  if (component.empty()) return;
  if (component == "." || component == "..") component.assign(component.size(), '_');
  if (!path.empty()) path += '/';
  path += component;
}

}  // namespace

std::string legal_name(std::string_view name) {
  const bool utf8 = is_utf8(name);
  std::string path, component;
  for (const char letter : name) {
    if (letter == '/') {
      add_component(path, std::exchange(component, ""));
    } else {
      component += allowed(letter, utf8) ? letter : '_';
    }
  }
  add_component(path, component);
  return path.empty() ? "_" : cut(path, kMostNameBytes);
}

std::string cut(std::string text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  while (most_bytes > 0 && (static_cast<unsigned char>(text[most_bytes]) & 0xC0) == 0x80) --most_bytes;
  text.resize(most_bytes);
  return text;
}

const std::string& NameTable::legal(const std::string& name) {
  const auto known = legal_.find(name);
  if (known != legal_.end()) return known->second;
  const auto wanted = legal_name(name);
  auto free = wanted;
  for (int number = 2; taken_.contains(free); ++number) {
    free = cut(wanted, kMostNameBytes - kRoomForNumber) + "_" + std::to_string(number);
  }
  taken_.insert(free);
  return legal_.emplace(name, free).first->second;
}

}  // namespace ddprun::mlflow

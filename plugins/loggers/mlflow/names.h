// SPDX-License-Identifier: MIT
// Names that MLflow accepts.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::mlflow {

// Keeps letters, digits and `_-. :/`, up to 250 bytes, and no misleading path ("..", "//"). Everything else becomes an
// underscore.
std::string legal_name(std::string_view name);

// Returns at most the first `most_bytes` bytes of `text`, ending with a whole character.
std::string cut(std::string text, size_t most_bytes);

// Two names that become equal are told apart by a number at the second's end.
class NameTable {
 public:
  bool knows(const std::string& name) const { return legal_.contains(name); }
  const std::string& legal(const std::string& name);

 private:
  std::map<std::string, std::string> legal_;
  std::set<std::string> taken_;
};

}  // namespace ddprun::mlflow

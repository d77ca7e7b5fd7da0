// SPDX-License-Identifier: MIT
// Names as MLflow takes them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::mlflow {

// Letters, digits and `_-. :/`, no longer than 250 bytes, and a path that says what it says: no "..", no "//". Whatever
// else there is becomes an underscore.
std::string legal_name(std::string_view name);

// The first bytes of `text`, at most so many, that end with a whole character.
std::string cut(std::string text, size_t most_bytes);

// Two names that become the same one are told apart by a number at the second's end.
class NameTable {
 public:
  bool knows(const std::string& name) const { return legal_.contains(name); }
  const std::string& legal(const std::string& name);

 private:
  std::map<std::string, std::string> legal_;
  std::set<std::string> taken_;
};

}  // namespace ddprun::mlflow

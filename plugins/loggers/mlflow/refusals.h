// SPDX-License-Identifier: MIT
#pragma once

#include "json.h"

#include <filesystem>
#include <map>
#include <string>

namespace ddprun::mlflow {

// Keeps <run>/mlflow/refused.jsonl: what the server refused, each with the reason. Warns once per name.
class Refusals {
 public:
  explicit Refusals(std::filesystem::path file) : file_(std::move(file)) {}

  void set_aside(const std::string& name, const Json& item, const std::string& reason);

  // Returns true if the name was refused so often that there is no point in trying again.
  bool hopeless(const std::string& name) const;

 private:
  std::filesystem::path file_;
  std::map<std::string, int> count_;
};

}  // namespace ddprun::mlflow

// SPDX-License-Identifier: MIT
#pragma once

#include "json.h"

#include <filesystem>
#include <map>
#include <string>

namespace ddprun::mlflow {

// <run>/mlflow/refused.jsonl: what the server would not take, each with the reason. One warning for each name.
class Refusals {
 public:
  explicit Refusals(std::filesystem::path file) : file_(std::move(file)) {}

  void set_aside(const std::string& name, const Json& item, const std::string& reason);

  // So often refused that nobody needs to ask again.
  bool hopeless(const std::string& name) const;

 private:
  std::filesystem::path file_;
  std::map<std::string, int> count_;
};

}  // namespace ddprun::mlflow

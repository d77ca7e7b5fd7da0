// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <string>

namespace ddprun::mlflow {

// Prints one line for people on standard error, in the program's own format.
inline void tell(const char* level, const std::string& text) {
  const auto line = std::string("ddprun: ") + level + ": logger mlflow: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

inline void warn(const std::string& text) { tell("warning", text); }

}  // namespace ddprun::mlflow

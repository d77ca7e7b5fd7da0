// SPDX-License-Identifier: MIT
#include "base/nearest_path.h"

#include <ddprun/options.h>

#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  constexpr size_t kMost = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end;
       !error && at != end && names.size() < kMost; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  return names;
}

}  // namespace

fs::path nearest_path(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error)) return {};
  fs::path found;
  for (const auto& part : path) {
    const auto next = found / part;
    if (part.empty() || fs::exists(next, error)) {
      found = next;
      continue;
    }
    const auto near = nearest_name(part.string(), names_in(found));
    if (near.empty()) return {};
    found /= near;
  }
  return found;
}

std::string did_you_mean(const fs::path& path) {
  const auto near = nearest_path(path);
  return near.empty() ? "" : "; did you mean " + near.string() + "?";
}

}  // namespace ddprun

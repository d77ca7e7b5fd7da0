// SPDX-License-Identifier: MIT
#include "report/run_overrides.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string_view>

namespace ddprun {
namespace {

// Returns "optimizer.lr" for "++optimizer.lr=0.1" and for "~optimizer.lr".
std::string path_of(std::string_view override_text) {
  const auto begin = std::min(override_text.find_first_not_of("+~"), override_text.size());
  return std::string(override_text.substr(begin, override_text.find('=') - begin));
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// The last of two with the same path counts.
std::map<std::string, std::string> by_path(const Overrides& overrides) {
  std::map<std::string, std::string> found;
  for (const auto& text : overrides) {
    if (const auto path = path_of(text); path != "run.dir") found[path] = text;
  }
  return found;
}

std::set<std::string> paths_apart(const std::vector<std::map<std::string, std::string>>& runs) {
  std::set<std::string> apart;
  for (const auto& run : runs) {
    for (const auto& one : run) {
      const auto same = [&](const auto& other) { return std::ranges::find(other, one) != other.end(); };
      if (!std::ranges::all_of(runs, same)) apart.insert(one.first);
    }
  }
  return apart;
}

std::string shortened(const std::string& text, const std::string& path, const std::set<std::string>& paths) {
  const auto ends_alike = [&](const std::string& other) { return last_name(other) == last_name(path); };
  const auto name = std::ranges::count_if(paths, ends_alike) > 1 ? path : last_name(path);
  const auto equals = text.find('=');
  return equals == std::string::npos ? "~" + name : name + text.substr(equals);
}

}  // namespace

Overrides read_overrides(const std::filesystem::path& run) {
  Overrides overrides;
  std::ifstream stream(run / "overrides.txt");
  for (std::string line; std::getline(stream, line);) overrides.push_back(line);
  return overrides;
}

std::vector<std::string> overrides_apart(const std::vector<Overrides>& runs) {
  std::vector<std::map<std::string, std::string>> known;
  for (const auto& overrides : runs) known.push_back(by_path(overrides));
  const auto apart = paths_apart(known);
  std::vector<std::string> texts;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto& text = texts.emplace_back();
    for (const auto& one : runs[i]) {
      const auto path = path_of(one);
      if (apart.contains(path) && known[i].at(path) == one)
        text += (text.empty() ? "" : " ") + shortened(one, path, apart);
    }
  }
  return texts;
}

}  // namespace ddprun

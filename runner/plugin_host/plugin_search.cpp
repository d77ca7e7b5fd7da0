// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_search.h"

#include "base/on_demand.h"

#include <ddprun/error.h>
#include <ddprun/options.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <tuple>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Returns the files <folder>/*.so in a fixed order; none if there is no such folder.
std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".so" && !at->is_directory(error)) files.push_back(at->path());
  }
  std::ranges::sort(files);
  return files;
}

bool is_path(const std::string& choice) { return choice.find('/') != std::string::npos; }

// Returns true if the user may have meant this file, by its path, its descriptor or, if that cannot be read, its name.
bool answers_to(const PluginInfo& info, const std::string& choice, const std::string& kind) {
  if (is_path(choice)) return info.file == fs::absolute(choice).lexically_normal();
  if (info.file.filename() == choice) return true;
  if (info.name.empty()) return info.file.stem() == choice;
  return info.name == choice && (kind.empty() || info.kind == kind);
}

std::string article(const std::string& kind) { return (kind.starts_with('o') ? "an " : "a ") + kind; }

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::tuple<bool, std::string, std::string> place_in_list(const PluginInfo& info) {
  return {!info.problem.empty(), info.kind, info.name};
}

PluginInfo checked(PluginInfo info, const std::string& kind) {
  if (!info.problem.empty()) throw UserError(info.file.string() + ": " + info.problem);
  if (kind.empty() || info.kind == kind) return info;
  throw UserError(info.file.string() + ": " + info.name + " is " + article(info.kind) + " plugin, but " +
                  article(kind) + " is needed here");
}

}  // namespace

std::vector<PluginInfo> PluginSearch::list(const std::string& kind) const {
  std::vector<PluginName> wanted;
  for (const auto& info : unbuilt())
    if (kind.empty() || info.kind == kind) wanted.push_back({info.name, info.kind});
  build(wanted);
  auto plugins = built();
  std::erase_if(plugins, [&](const PluginInfo& info) { return !kind.empty() && info.kind != kind; });
  return plugins;
}

std::vector<PluginInfo> PluginSearch::known() const {
  auto plugins = built();
  for (auto& info : unbuilt())
    if (std::ranges::find(plugins, info.file, &PluginInfo::file) == plugins.end()) plugins.push_back(std::move(info));
  std::ranges::stable_sort(plugins, {}, place_in_list);
  return plugins;
}

std::vector<PluginInfo> PluginSearch::built() const {
  std::vector<PluginInfo> plugins;
  std::set<fs::path> seen;
  for (const auto& folder : folders_) {
    for (const auto* below : {"", "models", "datasets", "optimizers", "objectives", "callbacks", "loggers"}) {
      for (const auto& file : libraries_in(folder / below)) {
        std::error_code error;
        const auto real = fs::canonical(file, error);
        if (seen.insert(error ? file : real).second) plugins.push_back(read_plugin_file(file));
      }
    }
  }
  std::ranges::stable_sort(plugins, {}, place_in_list);
  return plugins;
}

// A plugin that comes with ddprun is called as its file is, in the folder of its kind: models/mlp.so.
std::vector<PluginInfo> PluginSearch::unbuilt() const {
  std::vector<PluginInfo> plugins;
  const auto own = own_plugin_folder();
  if (std::ranges::find(folders_, own) == folders_.end()) return plugins;
  for (const auto& part : unbuilt_parts()) {
    const auto file = own_prefix() / part;
    const auto folder = file.parent_path().filename().string();
    if (file.parent_path().parent_path() != own) continue;
    plugins.push_back({.file = file, .kind = folder.substr(0, folder.size() - 1), .name = file.stem().string()});
  }
  return plugins;
}

void PluginSearch::build(const std::vector<PluginName>& plugins) const {
  std::vector<std::string> parts;
  for (const auto& info : unbuilt()) {
    const auto means_it = [&](const PluginName& plugin) { return answers_to(info, plugin.choice, plugin.kind); };
    if (std::ranges::any_of(plugins, means_it)) parts.push_back(info.file.lexically_relative(own_prefix()).string());
  }
  require_parts(parts);
}

PluginInfo PluginSearch::find(const std::string& choice, const std::string& kind) const {
  build({{choice, kind}});
  if (is_path(choice)) return checked(read_plugin_file(fs::absolute(choice).lexically_normal()), kind);
  const auto found = candidates(choice, kind);
  if (found.empty()) not_found(choice, kind);
  if (found.size() == 1) return checked(found.front(), kind);
  std::string files;
  for (const auto& info : found) files += "\n  " + (kind.empty() ? info.kind + " " : "") + info.file.string();
  throw UserError("the name " + choice + " is ambiguous: more than one plugin file has it:" + files +
                  "\nremove all but one, or write the path of the one you want instead of its name");
}

std::vector<fs::path> PluginSearch::files(const std::string& choice) const {
  build({{choice, ""}});
  std::error_code error;
  if (fs::is_regular_file(choice, error)) return {choice};
  if (is_path(choice)) throw UserError(choice + ": there is no such file");
  std::vector<fs::path> files;
  for (const auto& info : candidates(choice, "")) files.push_back(info.file);
  if (files.empty()) not_found(choice, "");
  return files;
}

std::vector<PluginInfo> PluginSearch::candidates(const std::string& choice, const std::string& kind) const {
  auto plugins = built();
  std::erase_if(plugins, [&](const PluginInfo& info) { return !answers_to(info, choice, kind); });
  const bool readable = std::ranges::any_of(plugins, [](const PluginInfo& info) { return !info.name.empty(); });
  if (readable) std::erase_if(plugins, [](const PluginInfo& info) { return info.name.empty(); });
  return plugins;
}

void PluginSearch::not_found(const std::string& choice, const std::string& kind) const {
  std::vector<std::string> names;
  std::string other_kind;
  for (const auto& info : known()) {
    if (info.name == choice && !info.kind.empty()) other_kind = info.kind;
    if (!info.name.empty() && (kind.empty() || info.kind == kind)) names.push_back(info.name);
  }
  const auto what = kind.empty() ? "plugin" : kind + " plugin";
  if (!other_kind.empty())
    throw UserError(choice + " is " + article(other_kind) + " plugin, but " + article(kind) + " is needed here; " +
                    (names.empty() ? "no " + what + " was found" : "known: " + join(names)));
  const auto near = nearest_name(choice, names);
  std::string text = "there is no " + what + " " + choice;
  if (!near.empty()) text += "; did you mean " + near + "?";
  text += names.empty() ? "; no " + what + " was found" : (near.empty() ? "; known: " : " known: ") + join(names);
  if (choice.ends_with(".so")) text += "; for a file of the current folder, write ./" + choice;
  throw UserError(text + "; searched in " + folders_text() +
                  "; name one of your own by the path of its .so, or keep it in a folder of DDPRUN_PLUGIN_PATH");
}

std::string PluginSearch::folders_text() const {
  std::vector<std::string> words;
  std::error_code error;
  for (const auto& folder : folders_) {
    words.push_back(folder.string() + (fs::is_directory(folder, error) ? "" : " (does not exist)"));
  }
  return words.empty() ? "no folder: the search path is empty" : join(words);
}

fs::path own_plugin_folder() { return own_prefix() / "lib/ddprun/plugins"; }

std::vector<fs::path> plugin_search_path(const std::vector<fs::path>& from_experiment) {
  std::vector<fs::path> folders;
  for (const auto& folder : from_experiment) folders.push_back(fs::absolute(folder));
  const auto* variable = std::getenv("DDPRUN_PLUGIN_PATH");
  std::istringstream list(variable ? variable : "");
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!folder.empty()) folders.push_back(fs::absolute(folder));
  }
  folders.push_back(own_plugin_folder());
  return folders;
}

}  // namespace ddprun

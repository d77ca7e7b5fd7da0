// SPDX-License-Identifier: MIT
#include "cli/found_data.h"

#include "base/log.h"
#include "base/nearest_path.h"
#include "cli/table_arrays.h"
#include "picture_files.h"
#include "plugin_host/plugin_host.h"
#include "submit/submission.h"

#include <ddprun/error.h>

#include <algorithm>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;         // folders below the one that is looked at
constexpr size_t kMostFiles = 1e7;  // listed; more are no single data set

FoundFiles list_files(const fs::path& folder) {
  FoundFiles found{.folder = folder};
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const bool hidden = is_litter(at->path().filename().string());
    if (at->is_directory(ignored)) {
      if (hidden || at.depth() >= kDeepest) at.disable_recursion_pending();
    } else if (!hidden && found.files.size() < kMostFiles) {
      found.files.push_back(at->path());
    }
  }
  if (error) throw UserError(folder.string() + ": cannot be listed: " + error.message());
  std::ranges::sort(found.files);
  return found;
}

FoundFiles look_at(const fs::path& place) {
  std::error_code error;
  const auto path = fs::absolute(place).lexically_normal();
  if (fs::is_directory(path, error)) return list_files(path.has_filename() ? path : path.parent_path());
  if (!fs::is_regular_file(path, error))
    throw UserError(place.string() + ": there is no such folder or file" + did_you_mean(place));
  return {.folder = path.parent_path(), .files = {path}};
}

// Returns those of the highest rank.
std::vector<FoundData> ask(const std::vector<PluginInfo>& datasets, const FoundFiles& found,
                           const PluginHost& plugins) {
  std::vector<FoundData> all;
  for (const auto& dataset : datasets) {
    if (auto recognized = plugins.recognize(dataset, found)) all.push_back({dataset.name, std::move(*recognized)});
  }
  if (all.empty()) return all;
  const auto rank = [](const FoundData& data) { return data.recognized.by; };
  const auto best = std::ranges::min(all, {}, rank).recognized.by;
  std::erase_if(all, [&](const FoundData& data) { return rank(data) != best; });
  return all;
}

std::string known_text(const std::vector<PluginInfo>& datasets) {
  std::string text = "expected data for one of these datasets:";
  for (const auto& dataset : datasets) text += "\n  " + dataset.name + ": " + dataset.help;
  return text + "\nor a table, a .csv, .tsv or .parquet file, named itself: ddprun init FILE" +
         "\n`ddprun docs data` says how to bring other data";
}

[[noreturn]] void refuse(const FoundFiles& found, const std::vector<PluginInfo>& datasets) {
  const auto where = found.folder.string() + ": ";
  if (found.files.empty()) throw UserError(where + "there are no files; " + known_text(datasets));
  const auto tables = found.ending_in(kTableEndings);
  if (!tables.empty())
    throw UserError(where + found.counted(tables, "table") + ": name one of them: ddprun init " +
                    shell_word(tables.front().string()));
  throw UserError(where + found.counted(found.files, "file") + ", of kinds that no dataset reads; " +
                  known_text(datasets));
}

// Plugins that can be loaded, and know files.
std::vector<PluginInfo> recognizing(const PluginHost& plugins) {
  auto datasets = plugins.list("dataset");
  std::erase_if(datasets, [&](const PluginInfo& plugin) {
    if (!plugin.problem.empty()) log::warn(plugin.file.string() + " is not asked: " + plugin.problem);
    return !plugin.problem.empty() || !load_plugin_file(plugin.file).recognize;
  });
  return datasets;
}

}  // namespace

FoundData find_data(const fs::path& place, const PluginHost& plugins) {
  const auto found = look_at(place);
  const auto datasets = recognizing(plugins);
  auto answers = ask(datasets, found, plugins);
  if (answers.empty()) refuse(found, datasets);
  const auto where = found.folder.string() + ": ";
  const auto& one = answers.front();
  if (answers.size() > 1)
    throw UserError(where + "a mixture of " + one.recognized.what + ", and " + answers[1].recognized.what +
                    ", which the datasets " + one.plugin + " and " + answers[1].plugin +
                    " read; expected one kind of data; move the others to a folder of their own");
  if (!one.recognized.problem.empty()) throw UserError(where + one.recognized.what + ": " + one.recognized.problem);
  return one;
}

}  // namespace ddprun

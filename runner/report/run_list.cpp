// SPDX-License-Identifier: MIT
#include "report/run_list.h"

#include "report/run_overrides.h"

#include <ddprun/error.h>

#include <algorithm>
#include <map>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 6;  // outputs/<sweep>/<name>/<time> is 3

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.yaml", error) && fs::is_directory(folder / "logs", error);
}

void find_runs(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  if (is_run(folder)) {
    found.push_back(folder);
    return;
  }
  if (depth == 0) return;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error)) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) find_runs(entry.path(), depth - 1, found);
  }
}

std::string label_of(const fs::path& run, const fs::path& folder) {
  const auto below = run.lexically_relative(folder);
  return below == "." ? run.filename().string() : below.string();
}

// Runs in one folder are one multirun or sweep, or one user's attempts at the same thing.
void tell_apart(std::vector<ListedRun>& runs) {
  std::map<fs::path, std::vector<ListedRun*>> folders;
  for (auto& run : runs) folders[run.path.parent_path()].push_back(&run);
  for (const auto& [folder, beside] : folders) {
    std::vector<Overrides> overrides;
    for (const auto* run : beside) overrides.push_back(run->overrides);
    const auto texts = overrides_apart(overrides);
    for (size_t i = 0; i < beside.size(); ++i) beside[i]->apart = texts[i];
  }
}

}  // namespace

std::vector<ListedRun> list_runs(const fs::path& folder) {
  std::error_code error;
  const auto root = fs::canonical(folder, error);
  if (error) throw UserError(folder.string() + ": " + error.message());
  fs::directory_iterator(root, error);
  if (error) throw UserError(folder.string() + ": " + error.message());
  std::vector<fs::path> found;
  find_runs(root, kMostDepth, found);
  std::vector<ListedRun> runs;
  for (const auto& path : found)
    runs.push_back({label_of(path, root), path, read_run_state(path), read_overrides(path), ""});
  tell_apart(runs);
  std::ranges::sort(runs, [](const ListedRun& one, const ListedRun& other) {
    if (one.state.started != other.state.started) return one.state.started > other.state.started;
    return one.label > other.label;
  });
  return runs;
}

nlohmann::ordered_json run_list_json(const std::vector<ListedRun>& runs) {
  using Json = nlohmann::ordered_json;
  auto list = Json::array();
  for (const auto& [label, path, state, overrides, apart] : runs) {
    auto best = Json::object();
    if (!state.best_name.empty()) best[state.best_name] = state.best ? Json(*state.best) : Json(nullptr);
    list.push_back({{"run", label},
                    {"path", path.string()},
                    {"name", state.name},
                    {"status", state.status},
                    {"stop_reason", state.reason},
                    {"epochs", state.epochs},
                    {"steps", state.steps},
                    {"best", std::move(best)},
                    {"workers", state.workers},
                    {"started", state.started},
                    {"seconds", state.seconds},
                    {"overrides", overrides}});
  }
  return list;
}

}  // namespace ddprun

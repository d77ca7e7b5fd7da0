// SPDX-License-Identifier: MIT
#include "config/config_files.h"

#include "base/nearest_path.h"
#include "base/program.h"
#include "picture_files.h"

#include <ddprun/options.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

// Returns whether the path can be read as text: a pipe too (`ddprun <(generate)`), but not a folder.
bool is_readable(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  return !error && fs::exists(status) && !fs::is_directory(status);
}

void add_once(std::vector<fs::path>& paths, fs::path path) {
  path = path.lexically_normal();
  if (std::ranges::find(paths, path) == paths.end()) paths.push_back(std::move(path));
}

std::string join(const std::vector<fs::path>& paths) {
  std::string text;
  for (const auto& path : paths) text += (text.empty() ? "" : ", ") + path.string();
  return text;
}

// Returns the names of the YAML files beside these paths, and of those one folder "experiments" below.
std::vector<std::string> names_beside(const std::vector<fs::path>& paths) {
  std::set<std::string> names;
  for (const auto& path : paths) {
    std::error_code error;
    const auto folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".yaml" && !at->path().filename().string().starts_with("."))
        names.insert(at->path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

std::string suggestion(const std::string& name, const std::string& prefix, const std::vector<std::string>& names) {
  const auto near = nearest_name(name, names);
  if (!near.empty()) return "; did you mean " + prefix + near + "?";
  std::string text;
  for (const auto& known : names) text += (text.empty() ? "; there are: " : ", ") + prefix + known;
  return text + ";";
}

// Returns the nearest experiment in the current folder or below the search path, as it may be given: the name of its
// folder may be mistyped too.
fs::path near_experiment(const fs::path& given, const std::vector<fs::path>& search_path) {
  const auto with_ending = given.extension() == ".yaml" ? given : fs::path(given) += ".yaml";
  if (const auto here = nearest_path(with_ending); is_readable(here)) return here;
  for (const auto& folder : search_path) {
    const auto there = nearest_path(folder / with_ending);
    if (is_readable(there) && !given.is_absolute()) return there.lexically_relative(folder);
  }
  return {};
}

// Returns why something that is there is no experiment, and which command takes it; empty for what may be one.
std::string other_use(const fs::path& given) {
  const auto word = given.string(), name = given.filename().string();
  const auto hint = [&](const std::string& what, const std::string& command, const std::string& does) {
    return word + ": " + what + ", expected an experiment, a YAML file; `ddprun " + command + "` " + does;
  };
  std::error_code error;
  if (is_table_name(name) && is_readable(given)) return hint("a table", "init " + word, "writes one for it");
  if (is_picture_name(name) && is_readable(given))
    return hint("a picture", "init FOLDER", "writes one for a folder of pictures");
  if (!fs::is_directory(given, error)) return "";
  if (fs::exists(given / "config.yaml", error)) return hint("the folder of a run", "resume " + word, "continues it");
  if (fs::exists(given / "latest", error)) return hint("a folder of runs", "list " + word, "lists them");
  return hint("a folder", "init " + word, "writes one if there are data in it");
}

std::vector<fs::path> places_of(const fs::path& given, const std::vector<fs::path>& search_path) {
  std::vector<fs::path> places;
  const auto add = [&](const fs::path& path) {
    add_once(places, path);
    if (path.extension() != ".yaml" && path.extension() != ".yml") add_once(places, fs::path(path) += ".yaml");
  };
  add(given);
  if (given.is_absolute() || given.empty()) return places;
  for (const auto& folder : search_path) {
    add(folder / given);
    if (*given.begin() != "experiments") add(folder / "experiments" / given);
  }
  return places;
}

}  // namespace

std::optional<fs::path> ConfigFiles::find_experiment(const fs::path& given, Problems& problems) const {
  const auto places = places_of(given, search_path_);
  const auto found = std::ranges::find_if(places, is_readable);
  const auto other = found == places.end() || *found == given.lexically_normal() ? other_use(given) : "";
  if (!other.empty()) {
    problems.push_back(other);
    return std::nullopt;
  }
  if (found != places.end()) return *found;
  const auto prefix = given.has_parent_path() ? given.parent_path().string() + "/" : "";
  const auto near = near_experiment(given, search_path_);
  if (const auto folder = nearest_path(given); near.empty() && fs::is_directory(folder)) {
    problems.push_back(given.string() + ": no such experiment; did you mean " + other_use(folder));
    return std::nullopt;
  }
  const auto hint = near.empty() ? suggestion(given.stem().string(), prefix, names_beside(places))
                                 : "; did you mean " + near.string() + "?";
  problems.push_back(given.string() + ": no such experiment" + hint + " tried: " + join(places));
  return std::nullopt;
}

std::optional<fs::path> ConfigFiles::find(const std::string& entry) const {
  for (const auto& folder : search_path_) {
    const auto file = (folder / (entry + ".yaml")).lexically_normal();
    if (is_readable(file)) return file;
  }
  return std::nullopt;
}

std::string ConfigFiles::not_found(const std::string& entry) const {
  std::vector<fs::path> places;
  for (const auto& folder : search_path_) add_once(places, folder / (entry + ".yaml"));
  const fs::path path(entry);
  return "no such file" +
         suggestion(path.filename().string(), path.parent_path().string() + "/", names_beside(places)) +
         " tried: " + join(places);
}

void ConfigFiles::put_first(const fs::path& experiment) {
  auto folder = fs::absolute(experiment).parent_path().lexically_normal();
  if (folder.filename() == "experiments") folder = folder.parent_path();
  // Keeps a relative path relative in messages.
  if (!experiment.is_absolute()) folder = folder.lexically_proximate(fs::current_path());
  std::erase_if(search_path_, [&](const fs::path& known) {
    std::error_code error;
    return fs::equivalent(known, folder, error);
  });
  search_path_.insert(search_path_.begin(), folder);
}

std::vector<std::filesystem::path> config_search_path() {
  std::vector<std::filesystem::path> folders;
  if (const char* listed = std::getenv("DDPRUN_CONFIG_PATH")) {
    std::istringstream stream(listed);
    for (std::string folder; std::getline(stream, folder, ':');) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  const auto prefix = own_program().parent_path().parent_path();
  folders.push_back(prefix / "share" / "ddprun" / "configs");
  return folders;
}

}  // namespace ddprun

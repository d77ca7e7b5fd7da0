// SPDX-License-Identifier: MIT
#include "config/schema.h"

#include "config/defaults_list.h"

#include <algorithm>
#include <string>

namespace ddprun {

const SectionHelp* Schema::section(const std::string& name) const {
  const auto at = std::ranges::find(sections_, name, &SectionHelp::name);
  return at == sections_.end() ? nullptr : &*at;
}

const OptionDeclaration* Schema::key(const SectionHelp& section, const std::string& name) {
  const auto at = std::ranges::find(section.keys, name, &OptionDeclaration::name);
  return at == section.keys.end() ? nullptr : &*at;
}

bool Schema::is_open(const std::string& section) { return has_short_form(section) || section == "plugin_path"; }

bool Schema::is_section(const std::string& key) const { return !is_open(key) && !key.empty() && section(key); }

bool Schema::allows(const KeyPath& path) const {
  if (!key(sections_.front(), path[0])) return false;
  if (path.size() == 1 || is_open(path[0])) return true;
  const auto* in = section(path[0]);
  const auto* declaration = in ? key(*in, path[1]) : nullptr;
  return declaration && (path.size() == 2 || (path.size() == 3 && declaration->type.starts_with("map")));
}

namespace {

// Returns the names that begin like this, "cpus_per_node or cpus_per_worker" for cpus, or else the nearest one.
std::string nearest_keys(const std::string& name, const std::vector<std::string>& known) {
  std::string longer;
  for (const auto& key : known)
    if (name.size() > 2 && key.starts_with(name)) longer += (longer.empty() ? "" : " or ") + key;
  return longer.empty() ? nearest_name(name, known) : longer;
}

}  // namespace

std::string Schema::unknown_key(const KeyPath& path) const {
  const auto* in = key(sections_.front(), path[0]) ? section(path[0]) : &sections_.front();
  if (!in || (path.size() > 2 && key(*in, path[1])))
    return "unknown key; " + to_text({path.begin(), path.end() - 1}) + " holds one value";
  const bool at_root = in == &sections_.front();
  std::vector<std::string> known;
  for (const auto& declaration : in->keys) known.push_back(declaration.name);
  std::ranges::sort(known);
  const auto near = nearest_keys(at_root ? path[0] : path[1], known);
  std::string text = "unknown key; ";
  if (!near.empty()) text += "did you mean " + near + "? ";
  constexpr size_t kManyKeys = 24;  // beyond that the nearest name helps more than the list
  if (known.size() > kManyKeys && !near.empty()) return text.substr(0, text.size() - 1);
  text += "known: ";
  for (size_t i = 0; i < known.size(); ++i) text += (i ? ", " : "") + known[i];
  return text;
}

std::optional<std::string> Schema::fallback(const KeyPath& path) const {
  const auto* in = path.size() == 1 ? &sections_.front() : path.size() == 2 ? section(path[0]) : nullptr;
  const auto* declaration = in ? key(*in, path.back()) : nullptr;
  if (!declaration || declaration->fallback.empty()) return std::nullopt;
  return declaration->fallback;
}

std::vector<std::string> Schema::paths() const {
  std::vector<std::string> paths;
  for (const auto& section : sections_) {
    for (const auto& declaration : section.keys) {
      paths.push_back(section.name.empty() ? declaration.name : section.name + "." + declaration.name);
    }
  }
  return paths;
}

}  // namespace ddprun

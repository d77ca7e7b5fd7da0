// SPDX-License-Identifier: MIT
#include "config/compose.h"

#include "config/defaults_list.h"
#include "config/experiment.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "config/rivals.h"
#include "config/schema.h"
#include "config/secrets.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace ddprun {

namespace fs = std::filesystem;
namespace {

void fill_in(Value& config, const fs::path& file) {
  const Origin by_default{.source = "default"};
  if (!config.find("name")) {
    const Value::Entry name{"name", by_default, Value::scalar(file.stem().string(), by_default, true)};
    config.entries().insert(config.entries().begin(), name);
  }
  if (config.find("loggers")) return;
  auto& loggers = config.set("loggers", Value::list(by_default), by_default);
  for (const auto* plugin : kDefaultLoggers) {
    auto logger = Value::map(by_default);
    logger.set("plugin", Value::scalar(plugin, by_default), by_default);
    loggers.items().push_back(std::move(logger));
  }
}

void make_absolute(Value& path) { path = absolute_paths(std::move(path)); }

// Makes the path of a library absolute, so that it means the same from anywhere; a plugin's name stays.
void make_plugin_absolute(Value* section, std::string_view key = "plugin") {
  auto* plugin = section ? section->find(key) : nullptr;
  if (plugin && (plugin->text().ends_with(".so") || plugin->text().find('/') != std::string::npos))
    make_absolute(*plugin);
}

void make_paths_absolute(Value& config) {
  for (const auto* section : {"model", "dataset", "optimizer"}) make_plugin_absolute(config.find(section));
  make_plugin_absolute(config.find("objective"), selector_of("objective"));
  for (const auto list : kListsOfPlugins) {
    auto* plugins = config.find(list);
    if (!plugins) continue;
    for (auto& plugin : plugins->items()) make_plugin_absolute(&plugin);
  }
  if (auto* folders = config.find("plugin_path")) make_absolute(*folders);
  for (const KeyPath& key : {KeyPath{"pretrained", "file"},
                             {"trainer", "sampling", "weights"},
                             {"launch", "token_file"},
                             {"checkpoint", "resume"}}) {
    auto* path = find_at(config, key);
    if (path && path->text() != "auto" && path->text() != "never") make_absolute(*path);
  }
}

}  // namespace

Composition try_compose(const ComposeInput& input, Problems& problems) {
  Composition result;
  ConfigFiles files(input.search_path);
  const auto file = files.find_experiment(input.experiment, problems);
  if (!file) return result;
  files.put_first(*file);
  DefaultsComposer composer(std::move(files), problems);
  auto& config = result.config = composer.compose_experiment(*file);
  if (composer.incomplete()) return result;
  fill_in(config, *file);
  if (input.frozen) result.recorded = config;
  apply_overrides(config, input.overrides, composer, problems);
  if (!input.frozen) result.failed_places = interpolate(config, problems);
  expand_short_forms(config);
  check_secrets(config, problems);
  make_paths_absolute(config);
  result.complete = !composer.incomplete();
  return result;
}

Value compose(const ComposeInput& input) {
  Problems problems;
  auto result = try_compose(input, problems);
  if (!problems.empty()) throw_problems(problems);
  return std::move(result.config);
}

namespace {

using enum Override::Action;

class OverrideApplier {
 public:
  OverrideApplier(Value& config, DefaultsComposer& composer, Problems& problems)
      : config_(config), composer_(composer), problems_(problems) {}

  void apply(const Override& change) {
    if (change.action == kRemove) return remove(change);
    if (!may_set(change)) return;
    if (change.path.size() == 1 && change.value.is_scalar() && choose(change)) return;
    set(change);
    expand_short_forms(config_);
  }

 private:
  void reject(const Override& change, std::string_view text) {
    problems_.push_back(problem_line(change.origin, to_text(change.path), text));
  }

  bool may_set(const Override& change) {
    const auto* present = find_at(config_, change.path);
    const bool extends_list = present && present->is_list();
    if (change.action == kAdd && present && !present->is_null() && !extends_list) {
      reject(change, "is there already; write it without + to change it, or with ++ for either");
      return false;
    }
    if (present || schema_.allows(change.path)) return true;
    const auto known = schema_.unknown_key(change.path);
    const bool is_near = change.path.size() > 1 && known.find("did you mean") != known.npos;
    const auto meant = is_near ? "" : places_with(change.path.back());
    reject(change, meant.empty() ? known : "unknown key; did you mean " + meant + "?");
    return false;
  }

  // Returns the keys of this name: "optimizer.lr or schedule.lr", or "name" at the root.
  std::string places_with(const std::string& name) const {
    std::set<std::string> found;
    for (const auto& path : schema_.paths())
      if (path == name || path.ends_with("." + name)) found.insert(path);
    for (const auto& entry : config_.entries())
      if (entry.value.find(name)) found.insert(entry.key + "." + name);
    std::string text;
    for (const auto& path : found) text += (text.empty() ? "" : " or ") + path;
    return text;
  }

  // Applies `optimizer=adam`: the file of that group, or the plugin of that name. Returns false if it is neither.
  bool choose(const Override& change) {
    const auto& key = change.path[0];
    const auto entry = group_of_key(key) + "/" + change.value.text();
    const bool plain =
        !change.value.quoted() && key != "experiments" && change.value.text().find("..") == std::string::npos;
    if (plain && composer_.files().find(entry)) {
      auto chosen = composer_.compose_group(entry, change.origin);
      if (change.action == kAdd) {
        if (auto* section = chosen.find(key)) put(change, std::move(*section));
      } else {
        if (has_short_form(key)) config_.erase(key);
        displace_rivals(config_, chosen);
        merge(config_, std::move(chosen));
      }
      return true;
    }
    if (!schema_.is_section(key) || change.value.text().find("${") != std::string::npos) return false;
    reject(change, entry + ": " + composer_.files().not_found(entry));
    return true;
  }

  void set(const Override& change) {
    auto value = change.value;
    if (change.path.size() <= 2) displace(change, value);
    put(change, std::move(value));
  }

  // Removes what the override displaces.
  void displace(const Override& change, Value& value) {
    auto over = Value::map();
    auto& parent = change.path.size() == 1 ? over : over.set(change.path.front(), Value::map());
    auto& given = parent.set(change.path.back(), std::move(value), change.origin);
    std::ranges::move(displace_rivals(config_, over), std::back_inserter(displaced_));
    value = std::move(given);
  }

  void put(const Override& change, Value value) {
    auto* parent = &config_;
    for (size_t depth = 0; depth + 1 < change.path.size(); ++depth) {
      parent = step_down(change, *parent, depth);
      if (!parent) return;
    }
    const auto& last = change.path.back();
    auto* present = child(*parent, last);
    if (present && present->is_list() && change.action == kAdd) return append(*present, std::move(value));
    if (parent->is_list()) return put_item(change, *parent, std::move(value));
    if (!parent->is_map())
      return reject(change, to_text({change.path.begin(), change.path.end() - 1}) + " is not a map");
    put_entry(change, *parent, std::move(value));
  }

  // Returns the section that holds the rest of the path, creating it if it is not there.
  Value* step_down(const Override& change, Value& parent, size_t depth) {
    auto* next = child(parent, change.path[depth]);
    if (!next && parent.is_map()) next = &parent.set(change.path[depth], Value::map(change.origin), change.origin);
    if (next && next->is_null()) *next = Value::map(change.origin);
    if (next && (next->is_map() || next->is_list())) return next;
    const KeyPath to_here(change.path.begin(), change.path.begin() + static_cast<std::ptrdiff_t>(depth) + 1);
    reject(change, to_text(to_here) + (next ? " is not a map" : " does not exist"));
    return nullptr;
  }

  static void append(Value& list, Value value) {
    if (!value.is_list()) {
      list.items().push_back(std::move(value));
      return;
    }
    for (auto& item : value.items()) list.items().push_back(std::move(item));
  }

  void put_item(const Override& change, Value& list, Value value) {
    const auto index = list_index(change.path.back());
    if (!index || *index >= list.items().size()) {
      const KeyPath path(change.path.begin(), change.path.end() - 1);
      return reject(change, to_text(path) + " has " + std::to_string(list.items().size()) +
                                " entries, counted from 0; +" + to_text(path) + "=... appends one");
    }
    list.items()[*index] = std::move(value);
  }

  void put_entry(const Override& change, Value& map, Value value) {
    const auto& key = change.path.back();
    const auto section = change.path.size() > 1 ? change.path[change.path.size() - 2] : "";
    auto* present = map.find(key);
    const bool chooses = has_short_form(change.path[0]) && key == selector_of(section);
    if (chooses && present && present->text() != value.text()) {  // another plugin: drops the options of the old one
      map.entries().clear();
      present = nullptr;
    }
    if (present && present->is_map() && value.is_map() && !value.find(selector_of(key))) {
      merge(*present, std::move(value), key);
    } else {
      map.set(key, std::move(value), change.origin);
    }
  }

  void remove(const Override& change) {
    const auto& path = change.path;
    auto* parent = find_at(config_, {path.begin(), path.end() - 1});
    const auto index = parent && parent->is_list() ? list_index(path.back()) : std::nullopt;
    if (!parent || !child(*parent, path.back())) {
      if (std::ranges::find(displaced_, path) != displaced_.end()) return;  // by an override before this one
      const bool known = schema_.allows(path) && !Schema::is_open(path[0]);
      reject(change, known ? "is not written, so there is nothing to remove" : "no such key to remove");
    } else if (index) {
      parent->items().erase(parent->items().begin() + static_cast<std::ptrdiff_t>(*index));
    } else {
      parent->erase(path.back());
    }
  }

  Value& config_;
  DefaultsComposer& composer_;
  Problems& problems_;
  Schema schema_;
  std::vector<KeyPath> displaced_;
};

}  // namespace

void apply_overrides(Value& config, const std::vector<std::string>& overrides, DefaultsComposer& composer,
                     Problems& problems) {
  std::vector<Override> changes;
  for (const auto& text : overrides) {
    if (auto change = parse_override(text, problems)) changes.push_back(std::move(*change));
  }
  OverrideApplier applier(config, composer, problems);
  for (const bool choices : {true, false}) {
    for (const auto& change : changes) {
      if (change.chooses == choices) applier.apply(change);
    }
  }
}

}  // namespace ddprun

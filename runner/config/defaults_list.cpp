// SPDX-License-Identifier: MIT
#include "config/defaults_list.h"

#include "config/rivals.h"

#include <algorithm>
#include <array>

namespace ddprun {

namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxFiles = 256;  // a file may be named twice, so a list can grow without a cycle

// Returns "model" for "model/vision/resnet".
std::string group_of_entry(const std::string& entry) { return entry.substr(0, entry.find('/')); }

bool is_safe(const std::string& entry) {
  const fs::path path(entry);
  return path.is_relative() &&
         std::ranges::none_of(path, [](const fs::path& part) { return part == ".." || part == "."; });
}

}  // namespace

bool is_list_of_plugins(std::string_view key) {
  return std::ranges::find(kListsOfPlugins, key) != kListsOfPlugins.end();
}

std::string key_of_group(const std::string& group) {
  if (group == "experiments") return "";
  return is_list_of_plugins(group + "s") ? group + "s" : group;
}

std::string group_of_key(const std::string& key) {
  return is_list_of_plugins(key) ? key.substr(0, key.size() - 1) : key;
}

void DefaultsComposer::fail(const Origin& origin, std::string_view name, std::string_view text) {
  problems_.push_back(problem_line(origin, name, text));
  incomplete_ = true;
}

Value DefaultsComposer::compose_experiment(const fs::path& file) { return compose_file(file, "experiments", {}); }

Value DefaultsComposer::compose_group(const std::string& entry, const Origin& origin) {
  const auto file = files_.find(entry);
  if (!file) {
    fail(origin, "", entry + ": " + files_.not_found(entry));
    return Value::map();
  }
  return compose_file(*file, group_of_entry(entry), origin);
}

bool DefaultsComposer::is_right_kind(const Value& content, const std::string& group, const fs::path& file) {
  if (content.is_map() || (content.is_list() && is_list_of_plugins(key_of_group(group)))) return true;
  if (content.is_null()) {
    fail({.source = file.string()}, "", "the file is empty");
  } else {
    fail(content.origin(), "", "expected a map of keys, found " + describe(content));
  }
  return false;
}

Value DefaultsComposer::compose_file(const fs::path& file, const std::string& group, const Origin& asked_at) {
  auto tree = Value::map({.source = file.string(), .line = 1, .column = 1});
  std::error_code nameless;  // a pipe has no path, so nothing can name it twice
  const auto canonical = fs::weakly_canonical(file, nameless);
  if (!nameless && std::ranges::find(open_, canonical) != open_.end()) {
    fail(asked_at, "defaults", "a cycle: " + file.string() + " is among the files that need it");
    return tree;
  }
  if (++files_read_ > kMaxFiles) {
    if (files_read_ == kMaxFiles + 1) fail(asked_at, "defaults", "more than " + std::to_string(kMaxFiles) + " files");
    return tree;
  }
  auto content = read_yaml(file, problems_);
  if (!content) incomplete_ = true;
  if (!content || !is_right_kind(*content, group, file)) return tree;

  open_.push_back(canonical);
  if (const auto* defaults = content->find("defaults")) merge_defaults(tree, *defaults, group);
  open_.pop_back();
  content->erase("defaults");

  const auto key = key_of_group(group);
  auto own = key.empty() ? std::move(*content) : Value::map(tree.origin());
  if (!key.empty()) own.set(key, std::move(*content), asked_at);
  expand_short_forms(own);
  displace_rivals(tree, own);
  merge(tree, std::move(own));
  return tree;
}

void DefaultsComposer::merge_defaults(Value& tree, const Value& defaults, const std::string& group) {
  if (!defaults.is_list()) {
    fail(defaults.origin(), "defaults",
         "expected a list such as [model/convnet, optimizer/sgd], found " + describe(defaults));
    return;
  }
  for (const auto& item : defaults.items()) {
    const auto entry = entry_name(item, group);
    if (entry.empty()) continue;
    if (const auto file = files_.find(entry)) {
      auto over = compose_file(*file, group_of_entry(entry), item.origin());
      displace_rivals(tree, over);
      merge(tree, std::move(over));
    } else {
      fail(item.origin(), "defaults", entry + ": " + files_.not_found(entry));
    }
  }
}

// Returns "model/convnet" for that text, for Hydra's `model: convnet`, or for a lone `convnet` in a file of the group
// model.
std::string DefaultsComposer::entry_name(const Value& item, const std::string& group) {
  std::string entry = item.text();
  if (item.is_map() && item.entries().size() == 1 && item.entries()[0].value.is_scalar()) {
    entry = item.entries()[0].key + "/" + item.entries()[0].value.text();
  }
  if (entry == "_self_") {
    fail(item.origin(), "defaults", "_self_ is not needed: a file's own keys always win over its defaults");
    return "";
  }
  if (entry.ends_with(".yaml")) entry.resize(entry.size() - 5);
  if (entry.empty() || !is_safe(entry)) {
    fail(item.origin(), "defaults", "expected group/name such as model/convnet, found " + describe(item));
    return "";
  }
  return entry.find('/') == entry.npos ? group + "/" + entry : entry;
}

namespace {

constexpr std::array<std::string_view, 5> kChosen = {"model", "dataset", "optimizer", "objective", "schedule"};

bool chooses_another(const Value& base, const Value& over, std::string_view selector) {
  const auto* below = base.find(selector);
  const auto* above = over.find(selector);
  return below && above && below->text() != above->text();
}

void wrap_in_map(Value& value, std::string_view selector) {
  if (!value.is_scalar()) return;
  auto map = Value::map(value.origin());
  const auto origin = value.origin();
  map.set(selector, std::move(value), origin);
  value = std::move(map);
}

void wrap_in_list(Value* value) {
  if (!value || !(value->is_scalar() || value->is_map())) return;
  auto list = Value::list(value->origin());
  list.items().push_back(std::move(*value));
  *value = std::move(list);
}

}  // namespace

std::string_view selector_of(std::string_view key) {
  return key == "objective" || key == "schedule" ? "name" : "plugin";
}

bool has_short_form(std::string_view section) {
  return is_list_of_plugins(section) || std::ranges::find(kChosen, section) != kChosen.end();
}

void merge(Value& base, Value over, std::string_view key) {
  if (!base.is_map() || !over.is_map() || chooses_another(base, over, selector_of(key))) {
    base = std::move(over);
    return;
  }
  for (auto& entry : over.entries()) {
    auto* below = base.find(entry.key);
    if (!below) {
      base.set(entry.key, std::move(entry.value), std::move(entry.key_origin));
      continue;
    }
    merge(*below, std::move(entry.value), entry.key);
    std::ranges::find(base.entries(), entry.key, &Value::Entry::key)->key_origin = std::move(entry.key_origin);
  }
}

void expand_short_forms(Value& root) {
  for (const auto section : kChosen) {
    if (auto* value = root.find(section)) wrap_in_map(*value, selector_of(section));
  }
  wrap_in_list(root.find("plugin_path"));
  for (const auto key : kListsOfPlugins) {
    auto* plugins = root.find(key);
    wrap_in_list(plugins);
    if (!plugins) continue;
    for (auto& plugin : plugins->items()) wrap_in_map(plugin, "plugin");
  }
}

}  // namespace ddprun

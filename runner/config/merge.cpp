// SPDX-License-Identifier: MIT
#include "config/merge.h"

#include <algorithm>
#include <array>

namespace ddprun {
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
  return section == "loggers" || std::ranges::find(kChosen, section) != kChosen.end();
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
  auto* loggers = root.find("loggers");
  wrap_in_list(loggers);
  if (!loggers) return;
  for (auto& logger : loggers->items()) wrap_in_map(logger, "plugin");
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "config/renamed_keys.h"

#include "base/log.h"

#include <algorithm>
#include <array>
#include <string>

namespace ddprun {
namespace {

struct Renamed {
  const char *section, *before, *now;
};

constexpr std::array kRenamed{Renamed{"resources", "cpus", "cpus_per_worker"},
                              Renamed{"trainer", "layout", "memory_format"},
                              Renamed{"trainer", "measure_seconds", "system_metrics_seconds"}};

void warn(const Origin& origin, const Renamed& key) {
  const std::string section = std::string(key.section) + ".";
  log::warn(origin.text() + ": " + section + key.before + " is called " + section + key.now +
            " now; the old name will go with ddprun 0.3");
}

}  // namespace

KeyPath current_name(KeyPath path, const Origin& origin) {
  for (const auto& key : kRenamed) {
    if (path.size() != 2 || path[0] != key.section || path[1] != key.before) continue;
    warn(origin, key);
    path[1] = key.now;
  }
  return path;
}

void use_current_names(Value& config) {
  for (const auto& key : kRenamed) {
    auto* section = config.find(key.section);
    if (!section || !section->is_map() || section->find(key.now)) continue;
    const auto entry = std::ranges::find(section->entries(), key.before, &Value::Entry::key);
    if (entry == section->entries().end()) continue;
    warn(entry->key_origin, key);
    entry->key = key.now;
  }
}

}  // namespace ddprun

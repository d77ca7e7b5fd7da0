// SPDX-License-Identifier: MIT
// An optimizer whose options stand in a file, as errors tell it: "mine.yaml:2:9: optimizer.groups: ...".
#pragma once

#include "config/yaml_reader.h"
#include "plugin_host/plugin_host.h"

#include <ddprun/optimizer.h>

#include <memory>
#include <string>

namespace ddprun {

inline std::shared_ptr<Optimizer> from_yaml(const std::string& plugin, const std::string& options) {
  Problems problems;
  const PluginChoice choice{.plugin = plugin,
                            .options = parse_yaml(options, "mine.yaml", problems).value(),
                            .path = "optimizer",
                            .origin = {"mine.yaml", 1, 1}};
  return PluginHost(plugin_search_path({})).make_optimizer(choice);
}

}  // namespace ddprun

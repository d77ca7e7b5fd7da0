// SPDX-License-Identifier: MIT
// A dataset plugin as the runner gets it: from its shared library, through its descriptor.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/plugin.h>

#include <dlfcn.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

using Settings = std::vector<std::pair<std::string, std::string>>;

inline Options make_options(const Settings& settings) {
  auto values = Value::map();
  for (const auto& [key, text] : settings) values.set(key, Value::scalar(text));
  return Options(std::move(values), "dataset");
}

// Constructed, neither prepared nor started. `library` is the plugin's path. Throws where an option is wrong.
inline std::shared_ptr<Dataset> load_dataset(const std::string& library, Options options) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(dlerror());
  const auto* plugin = static_cast<const PluginDescriptor*>(dlsym(handle, DDPRUN_DESCRIPTOR_SYMBOL));
  std::shared_ptr<Dataset> dataset;
  plugin->create(&options, &dataset);
  if (!options.problems().empty()) throw std::runtime_error(options.problems().front());
  return dataset;
}

inline std::shared_ptr<Dataset> load_dataset(const std::string& library, const Settings& settings = {}) {
  return load_dataset(library, make_options(settings));
}

}  // namespace ddprun::test

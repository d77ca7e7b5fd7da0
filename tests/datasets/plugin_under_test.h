// SPDX-License-Identifier: MIT
// A dataset plugin as the runner gets it: from its shared library, through its descriptor.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/plugin.h>

#include <dlfcn.h>

#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

using Settings = std::vector<std::pair<std::string, std::string>>;

// "[0.1, 1]" is a list.
inline Value value_of(const std::string& text) {
  if (!text.starts_with('[')) return Value::scalar(text);
  auto list = Value::list();
  std::istringstream items(text.substr(1, text.size() - 2));
  for (std::string item; std::getline(items >> std::ws, item, ',');) list.items().push_back(Value::scalar(item));
  return list;
}

inline Options make_options(const Settings& settings) {
  auto values = Value::map();
  for (const auto& [key, text] : settings) values.set(key, value_of(text));
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

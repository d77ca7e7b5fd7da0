// SPDX-License-Identifier: MIT
// A dataset plugin as the runner gets it: from its shared library, through its descriptor.
#pragma once

#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <ddprun/dataset.h>
#include <ddprun/plugin.h>

#include <dlfcn.h>

#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

using Settings = std::vector<std::pair<std::string, std::string>>;
using Numbers = std::vector<int64_t>;

// "[0.1, 1]" is a list.
inline Value value_of(const std::string& text) {
  if (!text.starts_with('[')) return Value::scalar(text);
  auto list = Value::list();
  std::istringstream items(text.substr(1, text.size() - 2));
  for (std::string item; std::getline(items >> std::ws, item, ',');) list.items().push_back(Value::scalar(item));
  return list;
}

// Neither prepared nor started. `library` is the plugin's path. Throws UserError where an option is wrong.
inline std::shared_ptr<Dataset> load_dataset(const std::string& library, const Settings& settings) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(dlerror());
  const auto* plugin = static_cast<const PluginDescriptor*>(dlsym(handle, DDPRUN_DESCRIPTOR_SYMBOL));
  auto values = Value::map();
  for (const auto& [key, text] : settings) values.set(key, value_of(text));
  Options options(std::move(values), "dataset");
  std::shared_ptr<Dataset> dataset;
  plugin->create(&options, &dataset);
  if (!options.problems().empty()) throw UserError(options.problems().front());
  return dataset;
}

inline std::shared_ptr<Dataset> started_dataset(const std::string& library, const Settings& settings) {
  auto dataset = load_dataset(library, settings);
  dataset->start();
  return dataset;
}

inline Batch first(const Dataset& data, Split split, int64_t count) {
  Numbers numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return data.get(split, numbers);
}

// All files that a dataset knows of, used or not.
inline int64_t all_of(const DataAccount& account) {
  int64_t all = account.used;
  for (const auto& left : account.left_alone) all += left.count;
  return all;
}

// What datasets remember of a test's files stays out of the user's cache.
class OwnCache {
 public:
  OwnCache() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~OwnCache() { unsetenv("XDG_CACHE_HOME"); }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

  std::filesystem::path path() const { return folder_ / "ddprun"; }

 private:
  TestFolder folder_;
};

}  // namespace ddprun::test

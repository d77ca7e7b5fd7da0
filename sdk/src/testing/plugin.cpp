// SPDX-License-Identifier: MIT
#include <ddprun/callback.h>
#include <ddprun/dataset.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>
#include <ddprun/objective.h>
#include <ddprun/optimizer.h>
#include <ddprun/testing/plugin.h>

#include <dlfcn.h>

#include <cstring>

namespace ddprun::check {
namespace {

namespace fs = std::filesystem;

// Loads the library as the runner does and never unloads it: objects of it may live on.
const PluginDescriptor& descriptor_of(const fs::path& library) {
  void* handle = dlopen(fs::absolute(library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw UserError("the plugin cannot be loaded: " + std::string(dlerror()));
  const auto* descriptor = static_cast<const PluginDescriptor*>(dlsym(handle, DDPRUN_DESCRIPTOR_SYMBOL));
  if (!descriptor) {
    throw UserError(library.string() +
                    " is not a ddprun plugin: its source needs a line like DDPRUN_MODEL(Class, \"name\", " +
                    "\"help\") outside any namespace");
  }
  if (std::strncmp(descriptor->magic, DDPRUN_DESCRIPTOR_MAGIC, sizeof descriptor->magic) != 0 ||
      descriptor->size != sizeof(PluginDescriptor)) {
    throw UserError(library.string() + " was built with another SDK than its test: rebuild both");
  }
  return *descriptor;
}

template <class Kind>
std::shared_ptr<Kind> create(const PluginDescriptor& descriptor, Options& options) {
  std::shared_ptr<Kind> object;
  descriptor.create(&options, &object);
  return object;
}

std::string lines(const std::vector<std::string>& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : "\n") + problem;
  return text;
}

template <class Kind>
Maker<Kind> maker(const char* kind, const fs::path& library, const Settings& settings) {
  return [=] {
    const auto& descriptor = descriptor_of(library);
    if (std::strncmp(descriptor.kind, kind, sizeof descriptor.kind) != 0) {
      throw UserError(library.string() + " is a plugin of the kind " + descriptor.kind + ", not " + kind);
    }
    auto options = settings.options(kind);
    auto object = create<Kind>(descriptor, options);
    if (const auto text = lines(options.problems()); !text.empty()) throw UserError(text);
    return object;
  };
}

}  // namespace

Maker<Model> model_plugin(const fs::path& library, const Settings& settings) {
  return maker<Model>("model", library, settings);
}

Maker<Dataset> dataset_plugin(const fs::path& library, const Settings& settings) {
  return maker<Dataset>("dataset", library, settings);
}

Maker<Optimizer> optimizer_plugin(const fs::path& library, const Settings& settings) {
  return maker<Optimizer>("optimizer", library, settings);
}

Maker<Objective> objective_plugin(const fs::path& library, const Settings& settings) {
  return maker<Objective>("objective", library, settings);
}

Maker<Callback> callback_plugin(const fs::path& library, const Settings& settings) {
  return maker<Callback>("callback", library, settings);
}

Maker<Logger> logger_plugin(const fs::path& library, const Settings& settings) {
  return maker<Logger>("logger", library, settings);
}

std::string option_problems(const fs::path& library, const Settings& settings) try {
  const auto& descriptor = descriptor_of(library);
  const std::string kind = descriptor.kind;
  auto options = settings.options(kind);
  if (kind == "model") create<Model>(descriptor, options);
  if (kind == "dataset") create<Dataset>(descriptor, options);
  if (kind == "optimizer") create<Optimizer>(descriptor, options);
  if (kind == "objective") create<Objective>(descriptor, options);
  if (kind == "callback") create<Callback>(descriptor, options);
  if (kind == "logger") create<Logger>(descriptor, options);
  return lines(options.problems());
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace ddprun::check

// SPDX-License-Identifier: MIT
// Registration: one line at the end of a plugin's source file, outside any namespace.
//
//   DDPRUN_MODEL(Mlp, "mlp", "two-layer perceptron for flat images")
//
// The others are DDPRUN_DATASET, DDPRUN_OPTIMIZER, DDPRUN_OBJECTIVE, DDPRUN_LOGGER and DDPRUN_CALLBACK, each in the
// header of its kind. The class is constructed from an Options&. The name is what the experiment file writes; it has at
// most 63 characters, the help at most 255.
#pragma once

#include <ddprun/descriptor.h>
#include <ddprun/options.h>

#include <memory>
#include <type_traits>

namespace ddprun::detail {

// `options` is an Options*, `out` a std::shared_ptr<Kind>*: the C signature that the descriptor carries.
template <class Kind, class Class>
void create_plugin(void* options, void* out) {
  static_assert(std::is_base_of_v<Kind, Class>, "a plugin's class derives from ddprun's class of its kind");
  static_assert(!std::is_abstract_v<Class>,
                "a plugin's class overrides all pure virtual methods of its kind; write override to see which");
  static_assert(std::is_abstract_v<Class> || std::is_constructible_v<Class, Options&>,
                "a plugin's class is constructed from a ddprun::Options&");
  *static_cast<std::shared_ptr<Kind>*>(out) = std::make_shared<Class>(*static_cast<Options*>(options));
}

}  // namespace ddprun::detail

#define DDPRUN_REGISTER_PLUGIN(create_function, kind_name, plugin_name, help_text)                 \
  extern "C" {                                                                                     \
  __attribute__((visibility("default"), used,                                                      \
                 section(DDPRUN_DESCRIPTOR_SECTION))) ::ddprun::PluginDescriptor ddprun_plugin = { \
      DDPRUN_DESCRIPTOR_STAMP, kind_name, plugin_name, help_text, create_function};                \
  }

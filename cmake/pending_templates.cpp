// SPDX-License-Identifier: MIT
// A plugin of GCC for the compilation of precompiled headers: `#pragma ddprun instantiate_templates` instantiates the
// templates that GCC keeps for the end of the file. docs/decisions/0040-* says what for.
// clang-format off: GCC's headers need each other in this order
#include <gcc-plugin.h>
#include <tree.h>
#include <c-family/c-pragma.h>
#include <cp/cp-tree.h>
#include <plugin-version.h>
// clang-format on

int plugin_is_GPL_compatible;  // GCC loads no plugin without it; the MIT licence is compatible

static void instantiate_templates(cpp_reader*) {
  instantiate_pending_templates(0);  // 0: there were no passes before this one
}

static void add_pragma(void*, void*) { c_register_pragma("ddprun", "instantiate_templates", instantiate_templates); }

// A compiler that was updated since the plugin was built gets no pragma, rather than functions of another build's
// types: it passes over the line, and the header is an ordinary one.
int plugin_init(plugin_name_args* plugin, plugin_gcc_version* running) {
  if (plugin_default_version_check(running, &gcc_version))
    register_callback(plugin->base_name, PLUGIN_PRAGMAS, add_pragma, nullptr);
  return 0;
}

// SPDX-License-Identifier: MIT
// The stamp of a plugin, which is read before any of its code runs.
#include "fuzz/fuzz_target.h"
#include "plugin_host/plugin_file.h"

namespace ddprun {

void feed_plugin(std::string_view bytes) { read_plugin_file(fuzz::as_file(bytes)); }

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(plugin, feed_plugin)

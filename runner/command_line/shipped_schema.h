// SPDX-License-Identifier: MIT
// The JSON Schema of what comes with ddprun, which the build writes: to make it means to load every plugin.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

// Returns the text, or nothing if other plugins or groups of configurations count, are there, or have changed since it
// was written.
std::optional<std::string> shipped_schema();

// Writes it beside the program, for the build.
void write_shipped_schema(const std::string& text);

}  // namespace ddprun

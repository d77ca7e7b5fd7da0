// SPDX-License-Identifier: MIT
// Reads a file of JSON objects, one per line.
#pragma once

#include "report/flat_object.h"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Calls `visit` with each object that has a text named `key`, and the place of its line in the file. All other lines
// add one sentence to the problems, except half a line at the end, which a killed or still writing process leaves.
// Returns false if there is no such file.
bool read_json_lines(const std::filesystem::path& file, std::string_view key, std::vector<std::string>& problems,
                     const std::function<void(const FlatObject& object, uint64_t offset)>& visit);

}  // namespace ddprun

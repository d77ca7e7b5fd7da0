// SPDX-License-Identifier: MIT
// A file of JSON objects, one a line.
#pragma once

#include "report/flat_object.h"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Calls `visit` with each object that has a text of the name `key`, and the place of its line in the file. Of the other
// lines one sentence joins the problems; not of a half line at the end: whoever is killed or still writes leaves one.
// False where there is no such file.
bool read_json_lines(const std::filesystem::path& file, std::string_view key, std::vector<std::string>& problems,
                     const std::function<void(const FlatObject& object, uint64_t offset)>& visit);

}  // namespace ddprun

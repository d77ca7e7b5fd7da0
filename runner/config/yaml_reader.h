// SPDX-License-Identifier: MIT
// Reads YAML text as a tree of values. Only this, yaml_reader.cpp and yaml_builder.cpp use yaml-cpp.
#pragma once

#include <ddprun/value.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

using Problems = std::vector<std::string>;  // one full line each

// Limits of one file: far above any experiment, far below what hurts.
inline constexpr size_t kMaxYamlBytes = size_t{1} << 20;
inline constexpr size_t kMaxYamlNodes = 100'000;  // counting every alias as what it stands for
inline constexpr size_t kMaxYamlDepth = 64;
inline constexpr size_t kMaxKeyBytes = 256;

// Reads one document as a tree. `source` names it in places. Returns no value if the text cannot be read at all;
// mistakes that leave a tree (a key written twice: the first stays) are noted in `problems` too.
std::optional<Value> parse_yaml(std::string_view text, const std::string& source, Problems& problems);

// Does the same for a file. Its content is not checked: an empty file is null.
std::optional<Value> read_yaml(const std::filesystem::path& file, Problems& problems);

// Parses the value of an override, which has one place for all of it: lists, maps and quoted texts as YAML, everything
// else literally, so that `:`, `#` and ${env:X,y} need no quotes. An empty text is the empty text.
std::optional<Value> parse_written_value(std::string_view text, const Origin& place, Problems& problems);

// Returns the value of an unquoted text: null for "null" and "~", else a scalar.
Value plain_scalar(std::string text, Origin origin);

size_t count_nodes(const Value& value);
size_t depth_of(const Value& value);  // 0 for a scalar, 1 for a list of scalars

}  // namespace ddprun

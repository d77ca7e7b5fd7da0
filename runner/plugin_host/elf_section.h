// SPDX-License-Identifier: MIT
// Reads one section of a shared library's file, without loading it. The file may be anything, or cut off: every offset
// in it is checked before it is followed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Returns the first bytes of the section, at most `limit`, or nothing if the file is a shared library for this machine
// without such a section. Throws UserError, with a text without the file's name, if it is not one.
std::optional<std::string> read_elf_section(const std::filesystem::path& file, std::string_view name, size_t limit);

}  // namespace ddprun

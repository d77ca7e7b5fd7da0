// SPDX-License-Identifier: MIT
// Files that are there whole or not at all, whatever dies meanwhile.
#pragma once

#include <filesystem>
#include <string_view>

namespace ddprun {

// Writes all of `text`, through interruptions and calls that take a part of it. False, with errno, where that fails:
// `text` is then what was not written.
bool write_all(int fd, std::string_view& text);

// Writes beside `file` under a temporary name, fsyncs, renames over it, fsyncs the folder. Throws std::system_error
// with the path and the cause; the temporary file is then gone and an older `file` untouched, but where it is the
// folder that cannot be fsynced.
void write_file_atomically(const std::filesystem::path& file, std::string_view content, unsigned mode = 0666);

// Forces the names in a folder to the disk. A file system that knows no such thing (some network ones) has done what it
// can: no error. Throws std::system_error.
void sync_names(const std::filesystem::path& folder);

// Points `link` to `target`, replacing a link of that name in one step; on the disk when it returns. Throws
// std::system_error.
void point_symlink(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace ddprun

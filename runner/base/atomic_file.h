// SPDX-License-Identifier: MIT
// Atomic file operations: a file is there whole or not at all, whatever dies meanwhile.
#pragma once

#include <filesystem>
#include <string_view>

namespace ddprun {

// Writes all of `text`, despite interruptions and partial writes. On failure returns false, with errno; `text` is then
// what was not written.
bool write_all(int fd, std::string_view& text);

// Writes beside `file` under a temporary name, fsyncs, renames over it, fsyncs the folder. Throws std::system_error
// with the path and the cause; the temporary file is then gone and an older `file` untouched, unless it is the folder's
// fsync that failed.
void write_file_atomically(const std::filesystem::path& file, std::string_view content, unsigned mode = 0666);

// Forces the names in a folder to the disk. A file system that cannot (some network ones) is no error. Throws
// std::system_error.
void sync_names(const std::filesystem::path& folder);

// Points `link` to `target`, replacing an existing link in one step; it is on the disk on return. Throws
// std::system_error.
void point_symlink(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace ddprun

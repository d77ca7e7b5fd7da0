// SPDX-License-Identifier: MIT
// Reads the files of a run's folder, which may be somebody else's: who looks at such a run shows what was read.
//
// Below the folder no link is followed, so that nothing is read that does not lie there, and nothing but a regular file
// is opened: a pipe or a device is refused, not waited for. The folder itself may be reached over links. `name` is a
// path below it ("logs/rank_0.log"). Every refusal is a UserError that names the file, and what was found; a FileError
// where the disk fails.
#pragma once

#include "base/spawn.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace ddprun {

// No file that is read whole is larger: the largest, an environment.json or a picture, have less than 1 MB.
inline constexpr uint64_t kMostBytesBelow = uint64_t{64} << 20;

// Opens the file to be read; returns a closed descriptor if there is none of that name.
UniqueFd open_below(const std::filesystem::path& folder, const std::filesystem::path& name);

// Returns what the file holds; nothing if there is none of that name. Refuses one of more than `most` bytes. What may
// pass is tried once more.
std::string read_below(const std::filesystem::path& folder, const std::filesystem::path& name,
                       uint64_t most = kMostBytesBelow);

// Returns the file's size in bytes. Throws UserError if there is none of that name, too.
uint64_t size_below(const std::filesystem::path& folder, const std::filesystem::path& name);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// One HTTP request that appends to a file.
#pragma once

#include <ddprun/download.h>

#include <filesystem>
#include <functional>
#include <string>

namespace ddprun {

struct TransferResult {
  enum class Kind {
    kComplete,  // the server has no more bytes
    kCutOff,    // some bytes came, then the connection broke or stalled
    kNoResume,  // the server only sends whole files
    kFailed,
  };
  Kind kind = Kind::kFailed;
  std::string problem;  // empty if complete
};

// Requests the bytes after the file's present end and appends them. `progress` gets the file's bytes so far and in
// total (0 if unknown). Throws UserError if the file cannot be written, and what `progress` throws.
TransferResult transfer(const std::string& url, const std::filesystem::path& file, const DownloadLimits& limits,
                        const std::function<void(int64_t done, int64_t total)>& progress);

// Returns the address of a file below a mirror's address, with or without a final slash.
std::string address(const std::string& mirror, const std::string& name);

}  // namespace ddprun

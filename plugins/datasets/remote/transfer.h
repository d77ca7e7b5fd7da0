// SPDX-License-Identifier: MIT
// One HTTP request that appends to a file.
#pragma once

#include "download.h"

#include <functional>

namespace ddprun::remote {

struct TransferResult {
  enum class Kind {
    kComplete,  // the server has no more bytes
    kCutOff,    // some bytes came, then the connection broke or stalled
    kNoResume,  // the server sends whole files only
    kFailed,
  };
  Kind kind = Kind::kFailed;
  std::string problem;  // empty where complete
};

// Asks for the bytes from the file's present end on and appends them. `progress` gets the file's bytes so far and in
// total (0 where unknown). Throws UserError where the file cannot be written, and what `progress` throws.
TransferResult transfer(const std::string& url, const std::filesystem::path& file, const DownloadLimits& limits,
                        const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace ddprun::remote

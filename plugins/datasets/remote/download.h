// SPDX-License-Identifier: MIT
// Downloads one file over HTTP from the first of several addresses that has it whole and unaltered.
#pragma once

#include <ddprun/dataset.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::remote {

struct RemoteFile {
  std::string name;            // below each mirror's address, and in the folder
  int64_t bytes = 0;           // expected size, for the progress
  std::string sha256;          // of the file
  std::string content_sha256;  // of the unpacked content; accepts other packings of it; may be empty
};

struct DownloadLimits {
  int64_t connect_seconds = 10;
  int64_t stall_seconds = 30;        // without receiving a byte
  int attempts = 4;                  // per address, as long as each brings some bytes
  int64_t most_bytes = 1LL << 30;    // a server that sends more is cut off
  int64_t pause_milliseconds = 500;  // before resuming where the last attempt was cut off
};

// Puts the file into `folder` under its name, whole or not at all; until then it is <name>.part, which a later call
// resumes. Returns what went wrong at each address, one line each, or nothing if the file is there. Throws UserError if
// the folder cannot be written, and what `progress` throws.
std::vector<std::string> download(const RemoteFile& file, const std::vector<std::string>& mirrors,
                                  const std::filesystem::path& folder, const Progress& progress,
                                  const DownloadLimits& limits = {});

// Returns the address of a file below a mirror's address, with or without a final slash.
std::string address(const std::string& mirror, const std::string& name);

}  // namespace ddprun::remote

// SPDX-License-Identifier: MIT
// Temporary folders for one user, removed even after a crash.
#pragma once

#include "base/spawn.h"

#include <filesystem>

namespace ddprun {

// A temporary folder that only this user may enter (0700), removed with its owner. Throws UserError if none can be
// created. One below TMPDIR holds a lock while its process lives; creating the next one removes those of processes that
// were killed.
class PrivateFolder {
 public:
  PrivateFolder();                                             // below TMPDIR
  explicit PrivateFolder(const std::filesystem::path& below);  // on the same file system as the later destination
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd lock_;
};

}  // namespace ddprun

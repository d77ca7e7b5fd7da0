// SPDX-License-Identifier: MIT
#pragma once

#include "base/spawn.h"

#include <filesystem>

namespace ddprun {

// A temporary folder that only this user may enter (0700), gone with its owner. Throws UserError where none can be
// made. One below TMPDIR holds a lock while its process lives: those of processes that were killed are removed when the
// next is made.
class PrivateFolder {
 public:
  PrivateFolder();                                             // where TMPDIR says
  explicit PrivateFolder(const std::filesystem::path& below);  // on the same file system as what is moved out of it
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd lock_;
};

}  // namespace ddprun

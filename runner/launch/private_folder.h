// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

namespace ddprun {

// A temporary folder that only this user may enter (0700), gone with its owner. Throws UserError where none can be made.
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
};

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Admits one process at a time to a folder. The kernel releases the lock when the process ends, however it dies.
#pragma once

#include <filesystem>
#include <functional>

namespace ddprun::remote {

class FolderLock {
 public:
  // Waits for the lock, calling `waiting` about ten times a second. Throws UserError if the folder cannot be written or
  // its file system has no locks.
  FolderLock(const std::filesystem::path& folder, const std::function<void()>& waiting);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace ddprun::remote

// SPDX-License-Identifier: MIT
// One process at a time in a folder. The kernel ends the lock with the process, however it dies.
#pragma once

#include <filesystem>
#include <functional>

namespace ddprun::remote {

class FolderLock {
 public:
  // Waits for the lock; calls `waiting` about ten times a second meanwhile. Throws UserError where the folder cannot be
  // written or its file system has no locks.
  FolderLock(const std::filesystem::path& folder, const std::function<void()>& waiting);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace ddprun::remote

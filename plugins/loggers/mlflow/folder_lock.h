// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

namespace ddprun::mlflow {

// Lets one process at a time send a run's spool. The kernel releases the lock when its holder ends.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Tries to take the lock and returns true if it is ours, which it always is on a file system without locks.
  bool take() const;

 private:
  int file_ = -1;
};

}  // namespace ddprun::mlflow

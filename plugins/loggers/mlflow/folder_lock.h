// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

namespace ddprun::mlflow {

// Who sends a run's spool: one process at a time. The kernel frees the lock with its holder's end.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Whether it is ours now. Where the file system has no locks it always is.
  bool take() const;

 private:
  int file_ = -1;
};

}  // namespace ddprun::mlflow

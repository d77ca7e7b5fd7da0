// SPDX-License-Identifier: MIT
#include "folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun::mlflow {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : file_(open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

bool FolderLock::take() const { return file_ < 0 || flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

}  // namespace ddprun::mlflow

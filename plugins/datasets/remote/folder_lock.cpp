// SPDX-License-Identifier: MIT
#include "folder_lock.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace ddprun::remote {

FolderLock::FolderLock(const std::filesystem::path& folder, const std::function<void()>& waiting) {
  const auto path = folder / ".lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw UserError(path.string() + ": cannot be written: " + std::strerror(errno));
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      const std::string reason = std::strerror(errno);
      close(file_);
      throw UserError(path.string() + ": cannot be locked: " + reason + "; choose a folder on another file system");
    }
    try {
      waiting();
    } catch (...) {
      close(file_);
      throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

FolderLock::~FolderLock() { close(file_); }

}  // namespace ddprun::remote

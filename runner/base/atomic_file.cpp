// SPDX-License-Identifier: MIT
#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

// Closes the file, and removes it unless it was renamed away.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& target, unsigned mode)
      : path_(target.parent_path() / ("." + target.filename().string() + ".tmp-" + std::to_string(::getpid()))),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)) {
    if (fd_ < 0) fail();
  }
  ~TemporaryFile() {
    ::close(fd_);
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view content) {
    if (!write_all(fd_, content)) fail();
    while (::fsync(fd_) != 0) {
      if (errno != EINTR) fail();
    }
  }

  void rename_to(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) fail();
    renamed_ = true;
  }

 private:
  [[noreturn]] void fail() const { throw std::system_error(errno, std::generic_category(), path_.string()); }

  fs::path path_;
  int fd_;
  bool renamed_ = false;
};

}  // namespace

bool write_all(int fd, std::string_view& text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done >= 0) text.remove_prefix(static_cast<size_t>(done));
    if (done < 0 && errno != EINTR) return false;
  }
  return true;
}

void sync_names(const fs::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  int failed = 0;
  do {
    failed = ::fsync(fd) == 0 ? 0 : errno;
  } while (failed == EINTR);
  ::close(fd);
  if (failed != 0 && failed != EINVAL && failed != ENOTSUP) {
    throw std::system_error(failed, std::generic_category(), folder.string());
  }
}

void write_file_atomically(const fs::path& file, std::string_view content, unsigned mode) {
  TemporaryFile temporary(file, mode);
  temporary.write(content);
  temporary.rename_to(file);
  sync_names(file.parent_path());
}

void point_symlink(const fs::path& link, const fs::path& target) {
  const fs::path temporary = link.string() + ".tmp-" + std::to_string(::getpid());
  std::error_code ignored;
  fs::remove(temporary, ignored);
  fs::create_symlink(target, temporary);
  std::error_code error;
  fs::rename(temporary, link, error);
  if (!error) return sync_names(link.parent_path());
  fs::remove(temporary, ignored);
  throw std::system_error(error, link.string());
}

}  // namespace ddprun

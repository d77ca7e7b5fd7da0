// SPDX-License-Identifier: MIT
#include "base/durable_file.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string remedy(int error_number) {
  switch (error_number) {
    case ENOENT: return "; is the run's folder still there?";
    case ENOSPC:
    case EDQUOT: return "; free some space, or put the run elsewhere with run.dir=...";
    case EACCES:
    case EPERM:
    case EROFS: return "; make the folder writable, or put the run elsewhere with run.dir=...";
    case EFBIG: return "; raise the limit on the size of files (ulimit -f), or put the run elsewhere with run.dir=...";
    default: return "";
  }
}

std::string cause_of(int error_number) { return std::error_code(error_number, std::generic_category()).message(); }

[[noreturn]] void fail_to(const std::string& deed, const fs::path& path, int error_number) {
  throw UserError(path.string() + ": cannot " + deed + ": " + cause_of(error_number) + remedy(error_number));
}

[[noreturn]] void fail_to_read(const fs::path& path, int error_number) {
  throw UserError(path.string() + ": cannot read: " + cause_of(error_number));
}

// Returns 0, or the error.
int force(int fd) {
  while (::fsync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Forces a folder's entries to the disk. Returns 0, or the error.
int force_names(const fs::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno == EACCES ? 0 : errno;  // new files may be made in folders that nobody may list
  const int failed = force(fd);
  ::close(fd);
  // Some network file systems have no fsync for folders and do not need it.
  return failed == EINVAL || failed == ENOTSUP ? 0 : failed;
}

constexpr size_t kLargestWrite = size_t{1} << 30;  // Linux takes at most 2 GiB in one call

// Closes the file, and removes it unless it was renamed away.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& target, unsigned mode)
      : path_(target.parent_path() / ("." + target.filename().string() + ".tmp-" + std::to_string(::getpid()))),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)) {
    if (fd_ < 0) fail(errno);
  }
  ~TemporaryFile() {
    ::close(fd_);
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view content) {
    if (!write_all(fd_, content)) fail(errno);
    if (const int error_number = force(fd_); error_number != 0) fail(error_number);
  }

  void rename_to(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) fail(errno);
    renamed_ = true;
  }

 private:
  [[noreturn]] void fail(int error_number) const {
    throw std::system_error(error_number, std::generic_category(), path_.string());
  }

  fs::path path_;
  int fd_;
  bool renamed_ = false;
};

}  // namespace

DurableFile::DurableFile(fs::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0) fail(errno);
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

void DurableFile::fail(int error_number) const { fail_to("write", path_, error_number); }

void DurableFile::write(const void* data, size_t size) {
  const auto* next = static_cast<const char*>(data);
  for (size_t left = size; left > 0;) {
    const ssize_t written = ::write(fd_, next, std::min(left, kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    next += written;
    left -= static_cast<size_t>(written);
  }
  sha256_.update(data, size);
  size_ += size;
}

FileDigest DurableFile::finish() {
  if (const int error_number = force(fd_); error_number != 0) fail(error_number);
  if (::close(std::exchange(fd_, -1)) != 0) {
    const int error_number = errno;
    ::unlink(path_.c_str());
    fail(error_number);
  }
  return {size_, sha256_.hex()};
}

uint64_t size_of_file(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) fail_to_read(file, error.value());
  return size;
}

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();  // unlike an iterator, it does not throw where reading fails
  return content ? content.str() : "";
}

FileDigest digest_of(const fs::path& file) try {
  return {size_of_file(file), sha256_file(file)};
} catch (const std::system_error& error) {
  fail_to_read(file, error.code().value());
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_to("make the folder", folder, error.value());
  sync_folder(folder.parent_path());
}

void sync_folder(const fs::path& folder) {
  if (const int failed = force_names(folder); failed != 0) fail_to("force the folder to the disk", folder, failed);
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_to("rename to " + to.filename().string(), from, errno);
  sync_folder(to.parent_path());
}

void exchange_durably(const fs::path& from, const fs::path& to) {
  int error = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
  if (error == EINVAL || error == ENOSYS) {
    auto aside = from;
    aside += ".old";
    const bool done = std::rename(to.c_str(), aside.c_str()) == 0 && std::rename(from.c_str(), to.c_str()) == 0 &&
                      std::rename(aside.c_str(), from.c_str()) == 0;
    error = done ? 0 : errno;
  }
  if (error != 0) fail_to("exchange with " + to.filename().string(), from, error);
  sync_folder(to.parent_path());
}

void rename_to_new(const fs::path& from, const fs::path& to) {
  int error = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (error == EINVAL || error == ENOSYS) {  // some file systems lack such a rename
    error = fs::exists(fs::symlink_status(to)) ? EEXIST : 0;
    if (error == 0 && std::rename(from.c_str(), to.c_str()) != 0) error = errno;
  }
  if (error == EEXIST) throw UserError(to.string() + " exists already, and is not overwritten; choose another name");
  if (error != 0) fail_to("rename to " + to.filename().string(), from, error);
  sync_folder(to.parent_path());
}

void point_link_at(const fs::path& link, const fs::path& target) {
  const fs::path fresh = link.string() + "-" + std::to_string(::getpid()) + ".tmp";
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) != 0) fail_to("make the link", fresh, errno);
  if (std::rename(fresh.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    fail_to("point to " + target.string(), link, error);
  }
  sync_folder(link.parent_path());
}

bool write_all(int fd, std::string_view& text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done >= 0) text.remove_prefix(static_cast<size_t>(done));
    if (done < 0 && errno != EINTR) return false;
  }
  return true;
}

void write_file_atomically(const fs::path& file, std::string_view content, unsigned mode) {
  TemporaryFile temporary(file, mode);
  temporary.write(content);
  temporary.rename_to(file);
  const auto folder = file.parent_path();
  if (const int failed = force_names(folder); failed != 0)
    throw std::system_error(failed, std::generic_category(), folder.string());
}

NewFile::NewFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path_, error)))
    throw UserError("--out " + path_.string() + " exists already, and is not overwritten; choose another name");
  const auto absolute = std::filesystem::absolute(path_);
  if (!std::filesystem::is_directory(absolute.parent_path(), error))
    throw UserError("--out " + path_.string() + ": there is no folder " + absolute.parent_path().string());
  temporary_ = absolute.string() + ".tmp-" + std::to_string(::getpid());
}

NewFile::~NewFile() {
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void NewFile::keep() { rename_to_new(temporary_, std::filesystem::absolute(path_)); }

}  // namespace ddprun

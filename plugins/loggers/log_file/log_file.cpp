// SPDX-License-Identifier: MIT
#include "log_file.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::log_file {
namespace {

[[noreturn]] void cannot(const char* deed, const std::filesystem::path& path, int error) {
  throw UserError(std::string("cannot ") + deed + " " + path.string() + ": " + std::strerror(error));
}

// Tolerates file systems and devices that report that they cannot sync.
template <class Sync>
void force(Sync sync, int fd, const std::filesystem::path& path) {
  while (sync(fd) != 0) {
    if (errno == EINVAL || errno == ENOTSUP || errno == EROFS) return;
    if (errno != EINTR) cannot("force to the disk", path, errno);
  }
}

// Closes the descriptor that it holds.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

RecordFile::~RecordFile() { close(); }

bool RecordFile::open(const std::filesystem::path& path, bool is_new) {
  close();
  make_folder(folder_of(path));
  path_ = path;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (is_new ? O_EXCL : 0), 0666);
  if (fd_ < 0 && !(is_new && errno == EEXIST)) cannot("write", path_, errno);
  named_ = false;
  return is_open();
}

void RecordFile::append(std::string_view record) {
  appended_ = true;
  write_all(fd_, path_, record);
}

void RecordFile::sync() {
  if (std::exchange(appended_, false)) force(::fdatasync, fd_, path_);
  if (is_open() && !std::exchange(named_, true)) sync_path(folder_of(path_));
}

void RecordFile::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void write_all(int fd, const std::filesystem::path& path, std::string_view content) {
  while (!content.empty()) {
    const auto written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) cannot("write", path, written < 0 ? errno : ENOSPC);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

void replace_file(const std::filesystem::path& file, std::string_view content) {
  make_folder(folder_of(file));
  const std::filesystem::path temporary = file.string() + ".tmp";
  const Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (fd.get() < 0) cannot("write", temporary, errno);
  write_all(fd.get(), temporary, content);
  force(::fdatasync, fd.get(), temporary);
  if (::rename(temporary.c_str(), file.c_str()) != 0) cannot("replace", file, errno);
  sync_path(folder_of(file));
}

void make_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> grown;
  std::error_code error;
  for (auto path = folder; !path.empty() && !std::filesystem::exists(path, error); path = path.parent_path()) {
    grown.push_back(folder_of(path));
  }
  if (grown.empty()) return;
  std::filesystem::create_directories(folder, error);
  if (error) cannot("make the folder", folder, error.value());
  for (const auto& path : grown) sync_path(path);
}

void sync_path(const std::filesystem::path& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) cannot("open", path, errno);
  force(::fsync, fd.get(), path);
}

}  // namespace ddprun::log_file

// SPDX-License-Identifier: MIT
#include "base/run_files.h"

#include <ddprun/error.h>
#include <ddprun/file_error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Returns digits that no other process has for the name of a draft: two containers may have one process number.
std::string drawn_digits() {
  std::random_device draw;  // the kernel's
  return std::to_string(uint64_t{draw()} << 32 | draw());
}

// Returns 0, or the errno of stat().
int look_at(const fs::path& path, struct stat& found) { return ::stat(path.c_str(), &found) == 0 ? 0 : errno; }

bool is_missing(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace

uint64_t size_of_file(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) throw_file_error("read", file, error.value());
  return size;
}

std::string content_of(const fs::path& file) { return read_file(file).value_or(""); }

HeldFolder::HeldFolder(std::filesystem::path run_dir)
    : path_(std::move(run_dir)), fd_(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_.open()) throw_file_error("open", path_, errno);
  struct stat config = {};
  has_config_ = !is_missing(look_at(path_ / "config.yaml", config));
}

bool HeldFolder::is_there() const {
  struct stat named = {}, ours = {}, config = {};
  if (const int error = look_at(path_, named)) return !is_missing(error);
  if (has_config_ && is_missing(look_at(path_ / "config.yaml", config))) return false;
  return ::fstat(fd_.get(), &ours) != 0 || (ours.st_dev == named.st_dev && ours.st_ino == named.st_ino);
}

void HeldFolder::require() const {
  if (!is_there()) throw UserError(problem());
}

std::string HeldFolder::problem() const {
  return path_.string() +
         ": the run's folder was removed or moved during the run, and what was trained since its last "
         "checkpoint is lost; a folder that was moved is resumed at its new place";
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
  if (error != 0) throw_file_error("exchange with " + to.filename().string(), from, error);
  sync_path(to.parent_path());
}

void rename_to_new(const fs::path& from, const fs::path& to) {
  int error = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (error == EINVAL || error == ENOSYS) {  // some file systems lack such a rename
    error = fs::exists(fs::symlink_status(to)) ? EEXIST : 0;
    if (error == 0 && std::rename(from.c_str(), to.c_str()) != 0) error = errno;
  }
  if (error == EEXIST) throw UserError(to.string() + " exists already, and is not overwritten; choose another name");
  if (error != 0) throw_file_error("rename to " + to.filename().string(), from, error);
  sync_path(to.parent_path());
}

void point_link_at(const fs::path& link, const fs::path& target) {
  const fs::path fresh = link.string() + "-" + drawn_digits() + ".tmp";
  if (::symlink(target.c_str(), fresh.c_str()) != 0) throw_file_error("make the link", fresh, errno);
  if (std::rename(fresh.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    throw_file_error("point to " + target.string(), link, error);
  }
  sync_path(link.parent_path());
}

NewFile::NewFile(std::filesystem::path path, bool replaces, const std::string& cure)
    : path_(std::move(path)), replaces_(replaces) {
  std::error_code error;
  if (!replaces_ && std::filesystem::exists(std::filesystem::symlink_status(path_, error)))
    throw UserError("--out " + path_.string() + " exists already, and is not overwritten; " + cure);
  const auto absolute = std::filesystem::absolute(path_);
  if (!std::filesystem::is_directory(absolute.parent_path(), error))
    throw UserError("--out " + path_.string() + ": there is no folder " + absolute.parent_path().string());
  temporary_ = absolute.string() + ".tmp-" + drawn_digits();
}

NewFile::~NewFile() {
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void NewFile::keep() {
  const auto path = std::filesystem::absolute(path_);
  if (!replaces_) return rename_to_new(temporary_, path);
  if (std::rename(temporary_.c_str(), path.c_str()) != 0) throw_file_error("replace", path, errno);
  sync_path(path.parent_path());
}

}  // namespace ddprun

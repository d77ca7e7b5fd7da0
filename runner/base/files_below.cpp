// SPDX-License-Identifier: MIT
#include "base/files_below.h"

#include <ddprun/error.h>
#include <ddprun/file_error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const std::string& flaw) {
  throw UserError(file.string() + ": " + flaw);
}

[[noreturn]] void refuse(const fs::path& file, int error) {
  throw FileError(file.string() + ": cannot be read: " + std::strerror(error), error);
}

[[noreturn]] void refuse_kind(const fs::path& file, mode_t mode) {
  if (S_ISLNK(mode)) refuse(file, "is a link, and a run's files are read only where they lie in its folder");
  refuse(file, std::string("is a ") +
                   (S_ISFIFO(mode)   ? "pipe"
                    : S_ISDIR(mode)  ? "folder"
                    : S_ISSOCK(mode) ? "socket"
                    : S_ISREG(mode)  ? "file, and a folder was expected"
                                     : "device") +
                   (S_ISREG(mode) ? "" : ", and a file was expected"));
}

// Says why the part of a path below `at` could not be opened: `error`, or what it is.
[[noreturn]] void refuse_part(const fs::path& file, int at, const fs::path& part, int error) {
  struct stat found {};
  const bool known = ::fstatat(at, part.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
  if (known && (error == ELOOP || error == ENOTDIR || error == ENXIO)) refuse_kind(file, found.st_mode);
  refuse(file, error);
}

struct stat status_of(const UniqueFd& fd, const fs::path& file) {
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) refuse(file, errno);
  return found;
}

}  // namespace

UniqueFd open_below(const fs::path& folder, const fs::path& name) {
  constexpr int kFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;
  constexpr int kFile = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;  // a pipe is not waited for
  if (name.is_absolute() || std::ranges::find(name, fs::path("..")) != name.end())
    refuse(folder / name, "does not lie in the run's folder");
  UniqueFd at(::open(folder.empty() ? "." : folder.c_str(), kFolder));
  auto path = folder;
  for (auto part = name.begin(); at.open() && part != name.end(); ++part) {
    path /= *part;
    const int flags = std::next(part) == name.end() ? kFile : kFolder;
    UniqueFd next(::openat(at.get(), part->c_str(), flags | O_NOFOLLOW));
    if (!next.open() && errno != ENOENT) refuse_part(path, at.get(), *part, errno);
    at = std::move(next);
  }
  if (!at.open() && errno != ENOENT && errno != ENOTDIR) refuse(folder, errno);
  if (!at.open()) return at;
  if (const auto mode = status_of(at, path).st_mode; !S_ISREG(mode)) refuse_kind(path, mode);
  return at;
}

namespace {

std::string read_once(const fs::path& folder, const fs::path& name, uint64_t most) {
  std::string content;
  const auto fd = open_below(folder, name);
  std::array<char, 1 << 16> block;
  while (fd.open()) {
    const auto got = ::read(fd.get(), block.data(), block.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(folder / name, errno);
    content.append(block.data(), static_cast<size_t>(got));
    if (content.size() > most)
      refuse(folder / name, "has more than " + std::to_string(most >> 20) + " MB, and no such file of a run has");
  }
  return content;
}

}  // namespace

std::string read_below(const fs::path& folder, const fs::path& name, uint64_t most) try {
  return read_once(folder, name, most);
} catch (const FileError& error) {
  if (!may_pass(error.error())) throw;
  return read_once(folder, name, most);
}

uint64_t size_below(const fs::path& folder, const fs::path& name) {
  const auto fd = open_below(folder, name);
  if (!fd.open()) refuse(folder / name, ENOENT);
  return static_cast<uint64_t>(status_of(fd, folder / name).st_size);
}

}  // namespace ddprun

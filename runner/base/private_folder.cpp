// SPDX-License-Identifier: MIT
#include "base/private_folder.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace ddprun {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPattern = "ddprun-XXXXXX";
constexpr auto kHeld = "lock";

fs::path make_folder(const fs::path& below, const std::string& advice) {
  std::string pattern = below / kPattern;
  if (::mkdtemp(pattern.data()) == nullptr)
    throw UserError("cannot make a temporary folder " + pattern + ": " + std::strerror(errno) + advice);
  return pattern;
}

fs::path temporary_files() {
  std::error_code ignored;
  return fs::temp_directory_path(ignored);
}

std::string first_line(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// A lock holds the id of its kernel. Another machine that sees the folder has another one and leaves it alone.
std::string this_kernel() { return first_line("/proc/sys/kernel/random/boot_id"); }

// The lock gets its name only once it is held, so that nobody finds it free before. It is not open if the disk is full:
// such a folder may stay.
UniqueFd hold_lock(const fs::path& folder) {
  const auto draft = folder / "lock.new";
  UniqueFd fd(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const auto text = this_kernel();
  std::string_view left = text;
  const bool held = fd.open() && lock_descriptor(fd.get(), LOCK_EX | LOCK_NB) == LockState::kOurs &&
                    write_all(fd.get(), left) && ::rename(draft.c_str(), (folder / kHeld).c_str()) == 0;
  return held ? std::move(fd) : UniqueFd();
}

void remove_if_abandoned(const fs::path& folder) {
  struct stat found = {};
  if (::lstat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != ::geteuid()) return;
  const UniqueFd lock(::open((folder / kHeld).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!lock.open() || first_line(folder / kHeld) != this_kernel()) return;
  if (lock_descriptor(lock.get(), LOCK_EX | LOCK_NB) != LockState::kOurs) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

// Removes what launchers that were killed have left behind.
const fs::path& tidy(const fs::path& below) {
  const auto prefix = kPattern.substr(0, kPattern.find('X'));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(below, error)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.size() == kPattern.size()) remove_if_abandoned(entry.path());
  }
  return below;
}

}  // namespace

PrivateFolder::PrivateFolder()
    : path_(make_folder(tidy(temporary_files()), "; set TMPDIR to a folder on this machine that can be written")),
      lock_(hold_lock(path_)) {}

PrivateFolder::PrivateFolder(const fs::path& below) : path_(make_folder(below, "")) {}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace ddprun

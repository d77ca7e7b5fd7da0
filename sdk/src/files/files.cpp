// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <ddprun/file_error.h>
#include <ddprun/files.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string remedy(int error) {
  constexpr auto kElsewhere = "choose another folder (run.dir=... for a run)";
  switch (error) {
    case ENOENT: return "; is the folder still there?";
    case ENOSPC:
    case EDQUOT: return std::string("; free some space, or ") + kElsewhere;
    case EACCES:
    case EPERM:
    case EROFS: return std::string("; make the folder writable, or ") + kElsewhere;
    case EFBIG: return std::string("; raise the limit on the size of files (ulimit -f), or ") + kElsewhere;
    case ENOTDIR:
    case ENAMETOOLONG: return std::string("; ") + kElsewhere;
    default: return "";
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

// Returns 0, or the error.
template <class Sync>
int force(Sync sync, int fd) {
  while (sync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Does the same where a pipe, a device or a folder of some network file systems, which cannot be synced, is no error.
template <class Sync>
int force_if_possible(Sync sync, int fd) {
  const int error = force(sync, fd);
  return error == EINVAL || error == ENOTSUP ? 0 : error;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

// Creates a file that nobody had before, and follows no link. Returns its descriptor, or -1.
int create(const fs::path& path, unsigned mode) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

// Returns 16 digits that no other process has: processes of two containers or machines may have one number.
std::string drawn_digits() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) throw std::runtime_error("getrandom() fails");
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

// Takes half a record away again, unless somebody else has appended behind it: the record will come once more.
void remove_end(int fd, size_t bytes) {
  const auto end = ::lseek(fd, 0, SEEK_CUR);  // where the last append has ended
  if (bytes == 0 || end != ::lseek(fd, 0, SEEK_END)) return;
  [[maybe_unused]] const auto done = ::ftruncate(fd, end - static_cast<off_t>(bytes));
}

// Returns whether a file ends within a line.
bool is_torn(int fd) {
  char last = '\n';
  const auto size = ::lseek(fd, 0, SEEK_END);
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

// A file beside the one that it will replace; removed unless it was renamed.
class Draft {
 public:
  Draft(const fs::path& file, unsigned mode)
      : path_(folder_of(file) / ("." + file.filename().string() + ".tmp-" + drawn_digits())), fd_(create(path_, mode)) {
    if (fd_.get() < 0) throw_file_error("write", file, errno);
  }
  ~Draft() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  void write(const fs::path& file, std::string_view content) {
    if (!write_all(fd_.get(), content)) throw_file_error("write", file, errno);
    if (const int error = force(::fsync, fd_.get()); error != 0) throw_file_error("write", file, error);
  }

  void rename_to(const fs::path& file) {
    if (std::rename(path_.c_str(), file.c_str()) != 0) throw_file_error("replace", file, errno);
    renamed_ = true;
  }

 private:
  fs::path path_;
  Descriptor fd_;
  bool renamed_ = false;
};

}  // namespace

void throw_file_error(const std::string& deed, const fs::path& path, int error) {
  throw FileError(path.string() + ": cannot " + deed + ": " +
                      std::error_code(error, std::generic_category()).message() + remedy(error),
                  error);
}

FileError::FileError(const std::string& text, int error) : UserError(text), error_(error) {}
FileError::~FileError() = default;

bool may_pass(int error) {
  constexpr std::array kErrors{ENOSPC, EDQUOT, EIO, ESTALE, ETIMEDOUT, EMFILE, ENFILE};
  return std::ranges::find(kErrors, error) != kErrors.end();
}

bool write_all(int fd, std::string_view& text) {
  constexpr size_t kLargestWrite = size_t{1} << 30;  // Linux takes at most 2 GiB in one call
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), std::min(text.size(), kLargestWrite));
    if (done >= 0) text.remove_prefix(static_cast<size_t>(done));
    if (done < 0 && errno != EINTR) return false;
  }
  return true;
}

void sync_path(const fs::path& path) {
  const Descriptor fd(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0 && errno == EACCES) return;  // new files may be made in folders that nobody may list
  if (const int error = fd.get() < 0 ? errno : force_if_possible(::fsync, fd.get()); error != 0)
    throw_file_error("force to the disk", path, error);
}

void make_folder(const fs::path& folder) {
  std::vector<fs::path> grown;
  std::error_code error;
  for (auto path = folder; !path.empty() && !fs::exists(path, error); path = path.parent_path())
    grown.push_back(folder_of(path));
  error.clear();
  fs::create_directories(folder, error);
  if (error) throw_file_error("make the folder", folder, error.value());
  for (const auto& path : grown) sync_path(path);
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw_file_error("rename to " + to.filename().string(), from, errno);
  sync_path(folder_of(to));
}

void replace_file(const fs::path& file, std::string_view content, unsigned mode) {
  Draft draft(file, mode);
  draft.write(file, content);
  draft.rename_to(file);
  sync_path(folder_of(file));
}

DurableFile::DurableFile(fs::path path) : path_(std::move(path)), fd_(create(path_, 0666)) {
  if (fd_ < 0 && errno == EEXIST) {  // what was left by an earlier try, or a link: it is not followed
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT) throw_file_error("replace", path_, errno);
    fd_ = create(path_, 0666);
  }
  if (fd_ < 0) throw_file_error("write", path_, errno);
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

void DurableFile::write(const void* data, size_t size) {
  std::string_view content(static_cast<const char*>(data), size);
  if (!write_all(fd_, content)) throw_file_error("write", path_, errno);
  sha256_.update(data, size);
  size_ += size;
}

FileDigest DurableFile::finish() {
  if (const int error = force(::fsync, fd_); error != 0) throw_file_error("write", path_, error);
  if (::close(std::exchange(fd_, -1)) != 0) {
    const int error = errno;
    ::unlink(path_.c_str());
    throw_file_error("write", path_, error);
  }
  return {size_, sha256_.hex()};
}

RecordFile::~RecordFile() { close(); }

bool RecordFile::open(const fs::path& path, bool is_new) {
  close();
  make_folder(folder_of(path));
  path_ = path;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (is_new ? O_EXCL : 0), 0666);
  if (fd_ < 0 && !(is_new && errno == EEXIST)) throw_file_error("write", path_, errno);
  named_ = false;
  may_be_torn_ = true;
  return is_open();
}

void RecordFile::append(std::string_view record) {
  require_its_name();
  appended_ = true;
  const auto size = record.size();
  if (write_all(fd_, record)) return;
  const int error = errno;
  remove_end(fd_, size - record.size());
  throw_file_error("write", path_, error);
}

void RecordFile::append_line(std::string_view line) {
  const bool torn = std::exchange(may_be_torn_, true) && is_torn(fd_);
  append((torn ? "\n" : "") + std::string(line) + "\n");
  may_be_torn_ = false;
}

// Opens the file anew, and throws, where the path names another one or none: nobody would find what is written.
void RecordFile::require_its_name() {
  struct stat mine {
  }, named{};
  const int error = ::stat(path_.c_str(), &named) == 0 ? 0 : errno;
  if (::fstat(fd_, &mine) != 0 || (error != 0 && error != ENOENT && error != ENOTDIR)) return;
  if (error == 0 && mine.st_dev == named.st_dev && mine.st_ino == named.st_ino) return;
  open(fs::path(path_));
  throw FileError(path_.string() + ": was removed or replaced during the run: its earlier records are gone", ESTALE);
}

void RecordFile::sync() {
  if (is_open()) require_its_name();
  if (appended_) {
    if (const int error = force_if_possible(::fdatasync, fd_); error != 0)
      throw_file_error("force to the disk", path_, error);
    appended_ = false;
  }
  if (!is_open() || named_) return;
  sync_path(folder_of(path_));
  named_ = true;
}

void RecordFile::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

namespace {

// Hands a file's content to `take`, in blocks. Returns 0, or the error; ENOENT if there is no such file. Throws
// FileError for a pipe, a socket or a device, which is not waited for.
int blocks_of(const fs::path& file, const std::function<void(std::string_view)>& take) {
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (fd.get() < 0 && errno != ENXIO) return errno == ENOTDIR ? ENOENT : errno;
  struct stat found {};
  if (fd.get() >= 0 && ::fstat(fd.get(), &found) != 0) return errno;
  if (S_ISDIR(found.st_mode)) return EISDIR;
  if (!S_ISREG(found.st_mode))
    throw FileError(file.string() + ": is a pipe, a socket or a device, and a file was expected", EINVAL);
  std::vector<char> block(1 << 18);
  for (;;) {
    const auto got = ::read(fd.get(), block.data(), block.size());
    if (got == 0) return 0;
    if (got > 0) take(std::string_view(block.data(), static_cast<size_t>(got)));
    if (got < 0 && errno != EINTR) return errno;
  }
}

}  // namespace

std::optional<std::string> read_file(const fs::path& file) {
  std::string content;
  const auto read = [&] {
    content.clear();
    return blocks_of(file, [&](std::string_view block) { content += block; });
  };
  int error = read();
  if (may_pass(error)) error = read();
  if (error == ENOENT) return std::nullopt;
  if (error != 0) throw_file_error("read", file, error);
  return content;
}

void read_blocks(const fs::path& file, const std::function<void(std::string_view)>& take) {
  if (const int error = blocks_of(file, take); error != 0) throw_file_error("read", file, error);
}

FileDigest digest_of(const fs::path& file) {
  Sha256 sha;
  FileDigest digest;
  read_blocks(file, [&](std::string_view block) {
    sha.update(block.data(), block.size());
    digest.size += block.size();
  });
  digest.sha256 = sha.hex();
  return digest;
}

std::string sha256_file(const fs::path& file) { return digest_of(file).sha256; }

fs::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache && *cache) return fs::path(cache) / "ddprun";
  return home && *home ? fs::path(home) / ".cache" / "ddprun" : fs::path();
}

void MappedFile::refuse(const std::string& flaw) const { throw UserError(path.string() + ": " + flaw); }

MappedFile map_file(const fs::path& path) {
  MappedFile mapped{.path = path};
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // a pipe is not waited for
  if (fd.get() < 0) mapped.refuse("cannot be opened: " + std::string(std::strerror(errno)));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) mapped.refuse("is not a file");
  mapped.size = static_cast<uint64_t>(status.st_size);
  if (mapped.size == 0) mapped.refuse("the file is empty; write it again");
  void* memory = ::mmap(nullptr, mapped.size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) mapped.refuse("cannot be read: " + std::string(std::strerror(errno)));
  mapped.bytes = {static_cast<const uint8_t*>(memory),
                  [memory, size = mapped.size](const uint8_t*) { ::munmap(memory, size); }};
  return mapped;
}

LockState lock_descriptor(int fd, int how) {
  while (::flock(fd, how) != 0) {
    if (errno != EINTR) return errno == EWOULDBLOCK ? LockState::kTaken : LockState::kNoLocks;
  }
  return LockState::kOurs;
}

FileLock::FileLock(const fs::path& file) : path_(file), fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw_file_error("write", file, errno);
}

FileLock::~FileLock() { ::close(fd_); }

LockState FileLock::try_lock() { return lock_descriptor(fd_, LOCK_EX | LOCK_NB); }

void FileLock::lock(const std::function<void()>& waiting) {
  for (LockState state; (state = try_lock()) != LockState::kOurs;) {
    if (state == LockState::kNoLocks)
      throw UserError(path_.string() + ": cannot be locked: " + std::strerror(errno) +
                      "; choose a folder on another file system");
    waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace ddprun

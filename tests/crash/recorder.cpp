// SPDX-License-Identifier: MIT
// LD_PRELOAD: writes down what a program and all that it starts do to the files below one folder, in the order in which
// the kernel saw it, and lets one of these calls fail. disk.py makes disks after a power cut out of the record.
//
//   CRASH_FOLDER  the folder, an absolute path without links
//   CRASH_LOG     the record, elsewhere. For each call that succeeded a line
//                 "<call>\t<offset>\t<size>\t<path>\t<other path>\n", then `size` bytes and "\n".
//                 The calls: create, write, truncate, sync, rename, link, symlink, unlink, mkdir, rmdir, mmap; and read
//                 where $CRASH_READS is set.
//   CRASH_FAIL    "<call>:<number>:<what>": the call of that number, from 1, of all processes together, fails by EIO,
//                 ENOSPC or EINTR, writes the half (short), or takes 50 ms (slow); ENOSPC and slow stay, as on a disk
//                 that is full, or shared with too many others. Two more change what follows: from "full" on, all that
//                 needs room fails by ENOSPC for two seconds; from "dead" on, each read of the same file by EIO.
//   CRASH_HANG    a file: while it is there, no call comes back that names something below the folder.
//
// A call and its line are one turn, under a lock that all processes share. Files are reported by their paths, which the
// kernel knows for each descriptor: nothing has to be kept from open() to close(). What a C library writes by itself
// (fwrite) is not seen: the tests compare the record's end with the real folder.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

const std::string& folder() {
  static const auto* const kPath =
      new std::string(environment("CRASH_FOLDER"));  // for calls after exit() has begun, too
  return *kPath;
}

bool is_watched(const std::string& path) {
  const auto& below = folder();
  if (below.empty() || !path.starts_with(below) || path.ends_with(" (deleted)")) return false;
  return path.size() == below.size() || path[below.size()] == '/';
}

std::string path_of(int fd) {
  std::array<char, PATH_MAX> path{};
  const auto name = "/proc/self/fd/" + std::to_string(fd);
  const auto size = ::readlink(name.c_str(), path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : "";
}

// Returns the path of a name that may not exist; follows links in the folders above it, but not the name itself.
std::string path_of(int at, const char* name) {
  std::string path = name;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!path.starts_with('/')) {
    std::array<char, PATH_MAX> cwd{};
    path =
        (at == AT_FDCWD ? std::string(::getcwd(cwd.data(), cwd.size()) ? cwd.data() : "") : path_of(at)) + "/" + path;
  }
  const auto slash = path.rfind('/');
  std::array<char, PATH_MAX> real{};
  if (!::realpath(slash == 0 ? "/" : path.substr(0, slash).c_str(), real.data())) return path;
  return std::string(real.data()) + path.substr(slash);
}

// One call, and its line in the record.
class Turn {
 public:
  Turn() : errno_(errno), guard_(mutex()) {
    static int log = -1;
    static pid_t owner = -1;
    if (owner != ::getpid()) {  // a fork would share the lock with its parent
      owner = ::getpid();
      const auto path = environment("CRASH_LOG");
      log = static_cast<int>(
          ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    }
    log_ = log;
    ::flock(log_, LOCK_EX);
    errno = errno_;
  }
  ~Turn() {
    const int error = errno;
    ::flock(log_, LOCK_UN);
    errno = error;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Sets errno and returns true where this call is to fail; halves `size` for a short write.
  bool fails(std::string_view call, size_t* size = nullptr, const std::string& path = "") {
    static const std::string kChosen = environment("CRASH_FAIL");
    const bool chosen = kChosen.starts_with(std::string(call) + ":");
    if (kChosen.ends_with(":full") && needs_room(call))
      return is_full(chosen && count() == std::atol(kChosen.c_str() + call.size() + 1));
    if (!chosen) return false;
    const auto colon = kChosen.rfind(':');
    const auto what = kChosen.substr(colon + 1);
    if (what == "dead") return is_dead(path, count() == std::atol(kChosen.c_str() + call.size() + 1));
    const long number = std::atol(kChosen.c_str() + call.size() + 1), now = count();
    const bool stays = what == "ENOSPC" || what == "slow";
    if (now != number && !(stays && now > number)) return false;
    if (what == "slow") return ::usleep(50'000), false;
    if (what == "short") {
      if (size && *size > 1) *size /= 2;
      return false;
    }
    static const std::map<std::string, int> kErrors{{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EINTR", EINTR}};
    errno = kErrors.at(what);
    return true;
  }

  void record(const char* call, const std::string& path, const std::string& other = "", int64_t offset = 0,
              const void* data = nullptr, size_t size = 0) const {
    const int error = errno;
    std::string line = std::string(call) + "\t" + std::to_string(offset) + "\t" + std::to_string(size) + "\t" + path +
                       "\t" + other + "\n";
    if (size > 0) line.append(static_cast<const char*>(data), size);
    line += "\n";
    for (size_t done = 0; done < line.size();) {
      const auto written = ::syscall(SYS_write, log_, line.data() + done, line.size() - done);
      if (written <= 0) std::abort();
      done += static_cast<size_t>(written);
    }
    errno = error;
  }

 private:
  static bool needs_room(std::string_view call) {
    return call == "write" || call == "create" || call == "mkdir" || call == "symlink";
  }

  // A file beside the record keeps when the disk became full, for all processes.
  static bool is_full(bool begins) {
    const auto mark = environment("CRASH_LOG") + ".full";
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    if (begins)
      ::syscall(SYS_close, ::syscall(SYS_openat, AT_FDCWD, mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    struct stat since {};
    const auto ago = [&] {
      return static_cast<double>(now.tv_sec - since.st_mtim.tv_sec) +
             1e-9 * static_cast<double>(now.tv_nsec - since.st_mtim.tv_nsec);
    };
    const bool full = ::stat(mark.c_str(), &since) == 0 && ago() < 2;
    if (full) errno = ENOSPC;
    return full;
  }

  // The same for the file that cannot be read any more.
  static bool is_dead(const std::string& path, bool dies) {
    const auto mark = environment("CRASH_LOG") + ".dead";
    std::array<char, PATH_MAX> found{};
    if (dies) [[maybe_unused]]
      const auto done = ::syscall(SYS_symlinkat, path.c_str(), AT_FDCWD, mark.c_str());
    if (::readlink(mark.c_str(), found.data(), found.size() - 1) <= 0 || path != found.data()) return false;
    errno = EIO;
    return true;
  }

  static std::mutex& mutex() {
    static auto* const kOne = new std::mutex;
    return *kOne;
  }

  // Counts over all processes, by the size of a file beside the record.
  static long count() {
    const auto path = environment("CRASH_LOG") + ".count";
    const int fd =
        static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    ::syscall(SYS_write, fd, ".", 1);
    const auto size = ::lseek(fd, 0, SEEK_END);
    ::syscall(SYS_close, fd);
    return static_cast<long>(size);
  }

  int errno_;
  std::scoped_lock<std::mutex> guard_;
  int log_ = -1;
};

// `real` does it, and returns a negative number where it failed.
template <class Real>
auto changed_name(const char* call, const std::string& path, const std::string& other, Real real) -> decltype(real()) {
  if (!is_watched(path) && (other.empty() || !is_watched(other))) return real();
  Turn turn;
  if (turn.fails(call)) return -1;
  const auto result = real();
  if (result >= 0) turn.record(call, path, other);
  return result;
}

// Waits while the folder's file system hangs.
void hang(const char* name) {
  static const std::string kMark = environment("CRASH_HANG");
  if (kMark.empty() || !is_watched(name)) return;
  while (::syscall(SYS_faccessat, AT_FDCWD, kMark.c_str(), F_OK) == 0) ::usleep(10'000);
}

int open_file(int at, const char* name, int flags, mode_t mode) {
  hang(name);
  const auto real = [&] { return static_cast<int>(::syscall(SYS_openat, at, name, flags, mode)); };
  if ((flags & (O_CREAT | O_TRUNC)) == 0 || !is_watched(path_of(at, name))) return real();
  Turn turn;
  struct stat status {};
  const bool existed = ::fstatat(at, name, &status, 0) == 0;
  if (!existed && turn.fails("create")) return -1;
  const int fd = real();
  if (fd < 0) return fd;
  if (!existed) turn.record("create", path_of(fd));
  if (existed && (flags & O_TRUNC) != 0 && status.st_size > 0) turn.record("truncate", path_of(fd));
  return fd;
}

// `real` takes the size to write.
template <class Real>
ssize_t write_file(int fd, size_t size, const void* data, Real real) {
  if (folder().empty() || !is_watched(path_of(fd))) return real(size);
  Turn turn;
  if (turn.fails("write", &size)) return -1;
  const ssize_t written = real(size);
  const auto end = ::lseek(fd, 0, SEEK_CUR);
  if (written > 0) turn.record("write", path_of(fd), "", end - written, data, static_cast<size_t>(written));
  return written;
}

// `real` reads.
template <class Real>
ssize_t read_file(int fd, Real real) {
  static const bool kReads = !environment("CRASH_READS").empty();
  if (!kReads || folder().empty()) return real();
  const auto path = path_of(fd);
  if (!is_watched(path)) return real();
  Turn turn;
  if (turn.fails("read", nullptr, path)) return -1;
  turn.record("read", path);
  return real();
}

ssize_t write_at(int fd, const void* data, size_t size, off_t offset) {
  const auto real = [&] { return ::syscall(SYS_pwrite64, fd, data, size, offset); };
  if (folder().empty() || !is_watched(path_of(fd))) return real();
  Turn turn;
  if (turn.fails("write", &size)) return -1;
  const ssize_t written = real();
  if (written > 0) turn.record("write", path_of(fd), "", offset, data, static_cast<size_t>(written));
  return written;
}

int force(int fd, long number) {
  const auto real = [&] { return static_cast<int>(::syscall(number, fd)); };
  return changed_name("sync", path_of(fd), "", real);
}

int set_size(const std::string& path, off_t size, long number, long what) {
  const auto real = [&] { return static_cast<int>(::syscall(number, what, size)); };
  if (!is_watched(path)) return real();
  Turn turn;
  if (turn.fails("truncate")) return -1;
  const int result = real();
  if (result == 0) turn.record("truncate", path, "", size);
  return result;
}

// What the kernel itself has copied to where the file now stands.
template <class Real>
ssize_t copied_file(int fd, Real real) {
  if (folder().empty() || !is_watched(path_of(fd))) return real();
  Turn turn;
  if (turn.fails("write")) return -1;
  const ssize_t copied = real();
  if (copied <= 0) return copied;
  const auto offset = ::lseek(fd, 0, SEEK_CUR) - copied;
  std::string data(static_cast<size_t>(copied), '\0');
  const int reader = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path_of(fd).c_str(), O_RDONLY | O_CLOEXEC));
  if (::pread(reader, data.data(), data.size(), offset) != copied) std::abort();
  ::syscall(SYS_close, reader);
  turn.record("write", path_of(fd), "", offset, data.data(), data.size());
  return copied;
}

mode_t mode_of(int flags, va_list list) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0; }

int rename_file(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  return changed_name("rename", path_of(from_at, from), path_of(to_at, to),
                      [&] { return static_cast<int>(::syscall(SYS_renameat2, from_at, from, to_at, to, flags)); });
}

int remove_file(int at, const char* name, int flags) {
  return changed_name((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", path_of(at, name), "",
                      [&] { return static_cast<int>(::syscall(SYS_unlinkat, at, name, flags)); });
}

}  // namespace

extern "C" {

#define CRASH_OPEN(name)                           \
  int name(const char* path, int flags, ...) {     \
    va_list list;                                  \
    va_start(list, flags);                         \
    const mode_t mode = mode_of(flags, list);      \
    va_end(list);                                  \
    return open_file(AT_FDCWD, path, flags, mode); \
  }
#define CRASH_OPENAT(name)                             \
  int name(int at, const char* path, int flags, ...) { \
    va_list list;                                      \
    va_start(list, flags);                             \
    const mode_t mode = mode_of(flags, list);          \
    va_end(list);                                      \
    return open_file(at, path, flags, mode);           \
  }
CRASH_OPEN(open)
CRASH_OPEN(open64)
CRASH_OPENAT(openat)
CRASH_OPENAT(openat64)
int creat(const char* path, mode_t mode) { return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char* path, mode_t mode) { return creat(path, mode); }

// The C library opens it by itself; what a C++ stream writes to it comes through write() again.
#define CRASH_FOPEN(name)                                                                                      \
  FILE* name(const char* path, const char* mode) {                                                             \
    static const auto real = reinterpret_cast<FILE* (*)(const char*, const char*)>(::dlsym(RTLD_NEXT, #name)); \
    if (mode[0] == 'r' || !is_watched(path_of(AT_FDCWD, path))) return real(path, mode);                       \
    const int flags = O_CREAT | O_WRONLY | O_CLOEXEC | (mode[0] == 'w' ? O_TRUNC : O_APPEND);                  \
    const int fd = open_file(AT_FDCWD, path, flags, 0666);                                                     \
    if (fd < 0) return nullptr;                                                                                \
    ::syscall(SYS_close, fd);                                                                                  \
    return real(path, mode);                                                                                   \
  }
CRASH_FOPEN(fopen)
CRASH_FOPEN(fopen64)

ssize_t read(int fd, void* data, size_t size) {
  return read_file(fd, [&] { return ::syscall(SYS_read, fd, data, size); });
}
ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  return read_file(fd, [&] { return ::syscall(SYS_pread64, fd, data, size, offset); });
}
ssize_t pread64(int fd, void* data, size_t size, off_t offset) { return pread(fd, data, size, offset); }

ssize_t write(int fd, const void* data, size_t size) {
  return write_file(fd, size, data, [&](size_t part) { return ::syscall(SYS_write, fd, data, part); });
}

ssize_t writev(int fd, const iovec* parts, int count) {
  if (folder().empty() || !is_watched(path_of(fd))) return ::syscall(SYS_writev, fd, parts, count);
  std::string text;
  for (int i = 0; i < count; ++i) text.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return write(fd, text.data(), text.size());
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) { return write_at(fd, data, size, offset); }
ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) { return write_at(fd, data, size, offset); }

ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t size, unsigned flags) {
  if (to_offset != nullptr && is_watched(path_of(to))) return errno = ENOSYS, -1;
  return copied_file(to, [&] { return ::syscall(SYS_copy_file_range, from, from_offset, to, to_offset, size, flags); });
}
ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
  return copied_file(to, [&] { return ::syscall(SYS_sendfile, to, from, offset, size); });
}
ssize_t sendfile64(int to, int from, off64_t* offset, size_t size) { return sendfile(to, from, offset, size); }

int ftruncate(int fd, off_t size) { return set_size(path_of(fd), size, SYS_ftruncate, fd); }
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
int truncate(const char* path, off_t size) {
  return set_size(path_of(AT_FDCWD, path), size, SYS_truncate, reinterpret_cast<long>(path));
}
int truncate64(const char* path, off_t size) { return truncate(path, size); }

int fsync(int fd) { return force(fd, SYS_fsync); }
int fdatasync(int fd) { return force(fd, SYS_fdatasync); }

// What asks for a file's status, where a folder hangs.
int stat(const char* path, struct stat* status) {
  hang(path);
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}
int stat64(const char* path, struct stat64* status) { return stat(path, reinterpret_cast<struct stat*>(status)); }

int rename(const char* from, const char* to) { return rename_file(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char* from, int to_at, const char* to) {
  return rename_file(from_at, from, to_at, to, 0);
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  return rename_file(from_at, from, to_at, to, flags);
}

int unlink(const char* path) { return remove_file(AT_FDCWD, path, 0); }
int unlinkat(int at, const char* path, int flags) { return remove_file(at, path, flags); }
int rmdir(const char* path) { return remove_file(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  struct stat status {};
  if (::lstat(path, &status) != 0) return -1;
  return remove_file(AT_FDCWD, path, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdirat(int at, const char* path, mode_t mode) {
  return changed_name("mkdir", path_of(at, path), "",
                      [&] { return static_cast<int>(::syscall(SYS_mkdirat, at, path, mode)); });
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

// The text that a symbolic link holds is in the place of its data.
int symlinkat(const char* text, int at, const char* path) {
  const auto real = [&] { return static_cast<int>(::syscall(SYS_symlinkat, text, at, path)); };
  if (!is_watched(path_of(at, path))) return real();
  Turn turn;
  if (turn.fails("symlink")) return -1;
  const int result = real();
  if (result == 0) turn.record("symlink", path_of(at, path), "", 0, text, std::strlen(text));
  return result;
}
int symlink(const char* text, const char* path) { return symlinkat(text, AT_FDCWD, path); }

int linkat(int from_at, const char* from, int to_at, const char* to, int flags) {
  return changed_name("link", path_of(from_at, from), path_of(to_at, to),
                      [&] { return static_cast<int>(::syscall(SYS_linkat, from_at, from, to_at, to, flags)); });
}
int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  const bool writes = (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0 && fd >= 0;
  if (writes && is_watched(path_of(fd))) Turn().record("mmap", path_of(fd));
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, size, protection, flags, fd, offset));
}
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  return mmap(at, size, protection, flags, fd, offset);
}

}  // extern "C"

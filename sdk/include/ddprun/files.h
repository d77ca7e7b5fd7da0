// SPDX-License-Identifier: MIT
// Files and folders that survive a power cut, mapped files, and locks. Every failure is a UserError that names the
// file, the cause and, where there is one, the remedy.
#pragma once

#include <ddprun/api.h>
#include <ddprun/digest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

// ---- writing

// Replaces a file atomically: it is on the disk when this returns, and a reader sees the old content or the new. Writes
// beside the file under a temporary name, which is gone if this throws. `mode` is that of open().
DDPRUN_API void replace_file(const std::filesystem::path& file, std::string_view content, unsigned mode = 0666);

// Renames a file or a folder and forces that to the disk; replaces what `to` names. Both must be in one folder.
DDPRUN_API void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Creates the folder and its parents if missing, and forces the new names to the disk.
DDPRUN_API void make_folder(const std::filesystem::path& folder);

// Forces a file's content, or a folder's names that were created, renamed or removed, to the disk. A file system that
// cannot (some network ones) and a folder that nobody may list are no errors.
DDPRUN_API void sync_path(const std::filesystem::path& path);

// Writes all of `text`, despite interruptions and partial writes. On failure returns false, with errno; `text` is then
// what was not written.
DDPRUN_API bool write_all(int fd, std::string_view& text);

// Throws the UserError for what the system refused: "PATH: cannot DEED: No space left on device; free some space ...".
[[noreturn]] DDPRUN_API void throw_file_error(const std::string& deed, const std::filesystem::path& path, int error);

// A new file, in place of an existing one or of a link, whose digest is computed while it is written. It is removed
// again unless it is finished.
class DDPRUN_API DurableFile {
 public:
  // Creates the file; its folder must be there.
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  // Appends bytes.
  void write(const void* data, size_t size);

  // Forces the data to the disk and closes the file.
  FileDigest finish();

 private:
  std::filesystem::path path_;
  int fd_;
  uint64_t size_ = 0;
  Sha256 sha256_;
};

// A file that grows by records, for loggers: append() as rows come, and sync() in Logger::flush(), before the
// checkpoint that stands for them counts. Used by one thread at a time.
class DDPRUN_API RecordFile {
 public:
  RecordFile() = default;
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Creates the file, or opens it to append; creates a missing folder. Returns false if `is_new` and the file exists.
  bool open(const std::filesystem::path& path, bool is_new = false);
  bool is_open() const { return fd_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return fd_; }

  // Appends in one write if the system takes it, so that several processes may append and a reader sees whole records.
  // Throws a FileError that may pass where the file was removed, or another one has its name: the next call appends to
  // a new one. The earlier records are gone then.
  void append(std::string_view record);

  // Appends a line, to which it adds the line break, in the same way. First ends a line that a killed process or a
  // failed write left unfinished, so that this one does not join it.
  void append_line(std::string_view line);

  // Forces the appended records and the file's name to the disk.
  void sync();

  // Closes the file, if one is open, without sync().
  void close();

 private:
  void require_its_name();

  std::filesystem::path path_;
  int fd_ = -1;
  bool appended_ = false, named_ = false;  // appended since the last sync; the name is on the disk
  bool may_be_torn_ = true;                // the file may end within a line
};

// Returns where the user's programs keep what they can make anew: $XDG_CACHE_HOME/ddprun or ~/.cache/ddprun; nothing
// if neither XDG_CACHE_HOME nor HOME is set.
DDPRUN_API std::filesystem::path cache_folder();

// ---- reading

// A whole file mapped read-only, so that the workers of one node share its pages.
struct DDPRUN_API MappedFile {
  std::filesystem::path path;
  std::shared_ptr<const uint8_t> bytes;  // keeps the file mapped; may be shared with what lies in it
  uint64_t size = 0;

  // Returns the bytes as text, which this object owns.
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size)}; }

  // Throws UserError with the path and `flaw`.
  [[noreturn]] void refuse(const std::string& flaw) const;
};

// Throws UserError if there is no such file, it cannot be read, or it is empty.
DDPRUN_API MappedFile map_file(const std::filesystem::path& path);

// ---- locks

// What asking for a lock gives: it is ours, another process has it, or the file system has none (errno says why).
enum class LockState { kOurs, kTaken, kNoLocks };

// Asks the kernel for the lock of an open file or folder, despite interruptions. `how` is that of flock(): LOCK_EX or
// LOCK_SH, with LOCK_NB where a lock that is taken is not to be waited for. It ends with the descriptor.
DDPRUN_API LockState lock_descriptor(int fd, int how);

// Admits one process at a time to what a file stands for. The kernel releases the lock when the process ends, however
// it dies. The file stays.
class DDPRUN_API FileLock {
 public:
  // Creates the file if it is missing. Throws UserError if it cannot be written.
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Takes the lock if no other process has it.
  LockState try_lock();

  // Waits for the lock, calling `waiting` about ten times a second; what that throws ends the wait. Throws UserError
  // where the file system has no locks.
  void lock(const std::function<void()>& waiting);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace ddprun

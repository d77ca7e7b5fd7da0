// SPDX-License-Identifier: MIT
// Reads a .tar.gz from beginning to end, without writing anything. Not thread-safe.
#pragma once

#include <ddprun/gzip_file.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct archive;
struct archive_entry;

namespace ddprun::cifar {

// All methods throw UserError, naming the archive, if it is damaged or cut off.
class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path);

  // Goes to the next member; returns false at the end, which is reached only if the whole file was there and its
  // checksum is right.
  bool next();

  // These describe the current member.
  std::string name() const;  // as written, without a leading "./"
  bool is_file() const;      // not a link, device or folder
  bool is_folder() const;
  int64_t size() const;

  // Reads the whole member. `out` has size() bytes.
  void read(std::span<uint8_t> out);

  [[noreturn]] void refuse(const std::string& flaw) const;

 private:
  static long on_read(archive* handle, void* self, const void** bytes);
  void drain();
  void refuse_if_cut_off() const;

  std::filesystem::path path_;
  GzipFile file_;
  std::vector<uint8_t> chunk_;
  std::exception_ptr thrown_;  // by file_, from inside libarchive
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  archive_entry* entry_ = nullptr;
};

}  // namespace ddprun::cifar

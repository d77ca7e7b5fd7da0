// SPDX-License-Identifier: MIT
#include "tar_reader.h"

#include <ddprun/error.h>

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <stdexcept>

namespace ddprun::cifar {
namespace {

constexpr size_t kChunk = 1 << 18;
constexpr int64_t kMostPadding = 1 << 20;  // after the last member

std::filesystem::path checked(const std::filesystem::path& path) {
  if (is_gzip(path)) return path;
  throw UserError(path.string() + ": is not a .tar.gz archive; download it again");
}

}  // namespace

TarReader::TarReader(const std::filesystem::path& path)
    : path_(checked(path)), file_(path), chunk_(kChunk), archive_(archive_read_new(), archive_read_free) {
  // zlib unpacks, because libarchive does not check gzip's checksum.
  const bool made = archive_ && archive_read_support_format_tar(archive_.get()) == ARCHIVE_OK;
  if (!made) throw std::runtime_error("libarchive cannot start");
  if (archive_read_open(archive_.get(), this, nullptr, &TarReader::on_read, nullptr) == ARCHIVE_OK) return;
  if (thrown_) std::rethrow_exception(thrown_);
  refuse("does not contain a tar archive; download it again");
}

// libarchive calls this from C: it must not throw.
long TarReader::on_read(archive* handle, void* self, const void** bytes) {
  auto& reader = *static_cast<TarReader*>(self);
  try {
    *bytes = reader.chunk_.data();
    return static_cast<long>(reader.file_.read(reader.chunk_));
  } catch (...) {
    reader.thrown_ = std::current_exception();
    archive_set_error(handle, EIO, "%s", "damaged");
    return -1;
  }
}

bool TarReader::next() {
  const int code = archive_read_next_header(archive_.get(), &entry_);
  if (thrown_) std::rethrow_exception(thrown_);
  if (code == ARCHIVE_EOF) {
    drain();
    return false;
  }
  if (code != ARCHIVE_OK) {
    refuse_if_cut_off();
    const char* flaw = archive_error_string(archive_.get());  // libarchive has no message for some
    refuse("is a damaged tar archive" + (flaw ? " (" + std::string(flaw) + ")" : "") + "; download it again");
  }
  return true;
}

// Reads to the end of the packing, where the checksum is.
void TarReader::drain() {
  int64_t padding = 0;
  while (const auto got = file_.read(chunk_)) {
    padding += static_cast<int64_t>(got);
    if (padding > kMostPadding) refuse("continues after its last member; download it again");
  }
  refuse_if_cut_off();
}

void TarReader::refuse_if_cut_off() const {
  if (file_.cut_off()) refuse("is truncated: the end of the packed file is missing; download it again");
}

std::string TarReader::name() const {
  const char* name = archive_entry_pathname(entry_);
  if (!name) refuse("has a member whose name is not text");
  const std::string text = name;
  return text.starts_with("./") ? text.substr(2) : text;
}

bool TarReader::is_file() const {
  return archive_entry_filetype(entry_) == AE_IFREG && !archive_entry_hardlink(entry_) &&
         archive_entry_size_is_set(entry_);
}

bool TarReader::is_folder() const { return archive_entry_filetype(entry_) == AE_IFDIR; }
int64_t TarReader::size() const { return archive_entry_size(entry_); }

void TarReader::read(std::span<uint8_t> out) {
  const auto got = archive_read_data(archive_.get(), out.data(), out.size());
  if (thrown_) std::rethrow_exception(thrown_);
  if (got == static_cast<la_ssize_t>(out.size())) return;
  refuse("is truncated or damaged in " + name() + ", of which " + std::to_string(got < 0 ? 0 : got) + " of " +
         std::to_string(out.size()) + " bytes are there; download it again");
}

void TarReader::refuse(const std::string& flaw) const { throw UserError(path_.string() + ": " + flaw); }

}  // namespace ddprun::cifar

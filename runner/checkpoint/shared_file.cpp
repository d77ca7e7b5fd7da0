// SPDX-License-Identifier: MIT
#include "checkpoint/shared_file.h"

#include "base/spawn.h"

#include <ddprun/error.h>
#include <ddprun/file_error.h>
#include <ddprun/files.h>

#include <ATen/core/Tensor.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ddprun {
namespace {

// A file that others write to at the same time; it must be there.
class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, int how)
      : path_(path), fd_(::open(path.c_str(), how | O_CLOEXEC | O_NOFOLLOW)) {
    if (!fd_.open()) fail(how == O_RDONLY ? "read" : "write");
  }

  void write(uint64_t at, std::string_view bytes) const {
    if (::lseek(fd_.get(), static_cast<off_t>(at), SEEK_SET) < 0 || !write_all(fd_.get(), bytes)) fail("write");
  }

  void sync() const {
    while (::fsync(fd_.get()) != 0) {
      if (errno != EINTR) fail("write");
    }
  }

  // Reads the next bytes, up to so many; fewer only at the file's end.
  void read(std::string& bytes, uint64_t size) const {
    bytes.resize(size);
    size_t done = 0;
    while (done < size) {
      const auto got = ::read(fd_.get(), bytes.data() + done, size - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read");
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
  }

 private:
  [[noreturn]] void fail(const char* deed) const { throw_file_error(deed, path_, errno); }

  const std::filesystem::path& path_;
  UniqueFd fd_;
};

std::string_view bytes_of(const at::Tensor& dense) {
  return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
}

}  // namespace

SharedFile::SharedFile(std::filesystem::path path, const TensorDict& own, const TensorsElsewhere& elsewhere,
                       int64_t rank)
    : path_(std::move(path)), own_(own), rank_(rank) {
  std::vector<SafetensorsEntry> forms;
  for (const auto& [name, tensor] : own) forms.push_back(safetensors_form(name, tensor));
  for (const auto& [form, other] : elsewhere) {
    forms.push_back(form);
    elsewhere_[form.name] = other;
  }
  layout_ = safetensors_layout(std::move(forms));
}

int64_t SharedFile::rank_of(const SafetensorsEntry& entry) const {
  const auto found = elsewhere_.find(entry.name);
  return found == elsewhere_.end() ? rank_ : found->second;
}

void SharedFile::create() const {
  DurableFile file(path_);
  file.write(layout_.beginning.data(), layout_.beginning.size());
  file.finish();
  std::error_code error;
  std::filesystem::resize_file(path_, layout_.size(), error);
  if (error) throw_file_error("write", path_, error.value());
}

std::string SharedFile::write_own() const {
  Sha256 digest;
  if (own_.empty()) return digest.hex();  // perhaps this rank does not see the file
  const OpenFile file(path_, O_WRONLY);
  for (const auto& entry : layout_.entries) {
    if (rank_of(entry) != rank_) continue;
    const auto dense = to_dense_host(own_.at(entry.name)).contiguous();
    file.write(entry.begin, bytes_of(dense));
    digest.update(dense.const_data_ptr(), dense.nbytes());
  }
  file.sync();
  return digest.hex();
}

FileDigest SharedFile::compared(const std::vector<std::string>& written) const {
  constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
  const OpenFile file(path_, O_RDONLY);
  std::string bytes;
  Sha256 whole;
  uint64_t size = 0;
  const auto read = [&](uint64_t most) {
    file.read(bytes, most);
    whole.update(bytes.data(), bytes.size());
    size += bytes.size();
  };
  read(layout_.beginning.size());
  if (bytes != layout_.beginning) throw UserError(path_.string() + ": its header is not what was written");
  std::vector<Sha256> found(written.size());
  for (const auto& entry : layout_.entries) {
    while (size < entry.end) {
      read(std::min(kPieceBytes, entry.end - size));
      if (bytes.empty()) throw UserError(path_.string() + ": it ends early, though it was written whole");
      found.at(static_cast<size_t>(rank_of(entry))).update(bytes.data(), bytes.size());
    }
  }
  for (size_t rank = 0; rank < written.size(); ++rank) {
    if (const auto sum = found[rank].hex(); sum != written[rank])
      throw UserError(path_.string() + ": the SHA-256 of what rank " + std::to_string(rank) + " has written to it is " +
                      sum + ", but of what it wrote " + written[rank]);
  }
  return {size, whole.hex()};
}

}  // namespace ddprun

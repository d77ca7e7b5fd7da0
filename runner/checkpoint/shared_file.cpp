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
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

// A file that others write to at the same time; it must be there.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW)) {
    if (!fd_.open()) fail();
  }

  void write(uint64_t at, std::string_view bytes) const {
    if (::lseek(fd_.get(), static_cast<off_t>(at), SEEK_SET) < 0 || !write_all(fd_.get(), bytes)) fail();
  }

  void sync() const {
    while (::fsync(fd_.get()) != 0) {
      if (errno != EINTR) fail();
    }
  }

 private:
  [[noreturn]] void fail() const { throw_file_error("write", path_, errno); }

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
  const OpenFile file(path_);
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
  const auto header_size = layout_.beginning.size();
  std::string header;
  std::vector<Sha256> found(written.size());
  Sha256 whole;
  uint64_t size = 0;
  auto entry = layout_.entries.begin();
  read_blocks(path_, [&](std::string_view block) {
    whole.update(block.data(), block.size());
    while (!block.empty() && size < layout_.size()) {
      const bool is_header = size < header_size;
      if (!is_header)
        entry = std::find_if(entry, layout_.entries.end(), [&](const auto& one) { return one.end > size; });
      const auto part = block.substr(0, (is_header ? header_size : entry->end) - size);
      if (is_header) header += part;
      if (!is_header) found.at(static_cast<size_t>(rank_of(*entry))).update(part.data(), part.size());
      size += part.size();
      block.remove_prefix(part.size());
    }
    size += block.size();
  });
  if (header != layout_.beginning) throw UserError(path_.string() + ": its header is not what was written");
  if (size < layout_.size()) throw UserError(path_.string() + ": it ends early, though it was written whole");
  for (size_t rank = 0; rank < written.size(); ++rank) {
    if (const auto sum = found[rank].hex(); sum != written[rank])
      throw UserError(path_.string() + ": the SHA-256 of what rank " + std::to_string(rank) + " has written to it is " +
                      sum + ", but of what it wrote " + written[rank]);
  }
  return {size, whole.hex()};
}

}  // namespace ddprun

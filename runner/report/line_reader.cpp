// SPDX-License-Identifier: MIT
#include "report/line_reader.h"

namespace ddprun {

constexpr size_t kChunkBytes = size_t{1} << 16;

LineReader::LineReader(const std::filesystem::path& file, uint64_t offset)
    : stream_(file, std::ios::binary), offset_(offset), next_offset_(offset) {
  stream_.seekg(static_cast<std::streamoff>(offset));
}

// Reads more of the file into the buffer; returns false at its end.
bool LineReader::fill() {
  buffer_.erase(0, position_);
  position_ = 0;
  const auto held = buffer_.size();
  buffer_.resize(held + kChunkBytes);
  stream_.read(buffer_.data() + held, kChunkBytes);
  const auto got = static_cast<size_t>(stream_.gcount());
  buffer_.resize(held + got);
  return got > 0;
}

bool LineReader::next() {
  offset_ = next_offset_;
  line_ = {};
  ended_ = too_long_ = false;
  size_t searched = 0;  // bytes after position_ without a newline
  size_t end = std::string::npos;
  while ((end = buffer_.find('\n', position_ + searched)) == std::string::npos) {
    searched = buffer_.size() - position_;
    if (searched > kMostLineBytes) {
      too_long_ = true;
      next_offset_ += searched;
      position_ = buffer_.size();
      searched = 0;
    }
    if (!fill()) break;
  }
  ended_ = end != std::string::npos;
  const auto length = (ended_ ? end : buffer_.size()) - position_;
  if (!ended_ && length == 0 && !too_long_) return false;
  if (!too_long_) line_ = std::string_view(buffer_).substr(position_, length);
  position_ += length + (ended_ ? 1 : 0);
  next_offset_ += length + (ended_ ? 1 : 0);
  ++number_;
  return true;
}

}  // namespace ddprun

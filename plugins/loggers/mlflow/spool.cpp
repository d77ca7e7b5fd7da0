// SPDX-License-Identifier: MIT
#include "spool.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ddprun::mlflow {
namespace {

constexpr size_t kChunk = 1 << 16;
constexpr size_t kMostBuffered = 1 << 20;  // of lines already read

bool is_text(const Json& value) { return value.is_string(); }
bool is_count(const Json& value) { return value.is_number_integer(); }
bool are_texts(const Json& map) { return map.is_object() && std::ranges::all_of(map, is_text); }
bool are_metrics(const Json& map) {
  return map.is_object() && std::ranges::all_of(map, [](const Json& value) { return value.is_primitive(); });
}

// What a line of a kind contains, as described in the header. A kind without names is itself checked.
struct Part {
  const char *kind, *name;
  bool (*fits)(const Json&);
};
constexpr auto kParts = std::to_array<Part>({{"spool", "", is_text},
                                             {"start", "time", is_count},
                                             {"start", "experiment", is_text},
                                             {"start", "run_name", is_text},
                                             {"start", "params", are_texts},
                                             {"start", "tags", are_texts},
                                             {"row", "split", is_text},
                                             {"row", "step", is_count},
                                             {"row", "time", is_count},
                                             {"row", "metrics", are_metrics},
                                             {"tags", "", are_texts},
                                             {"end", "status", is_text},
                                             {"end", "time", is_count},
                                             {"file", "from", is_text},
                                             {"file", "to", is_text}});

// A disk may return JSON that we never wrote.
bool is_ours(const Json& line) {
  return line.is_object() && std::ranges::all_of(kParts, [&](const Part& part) {
           const auto found = line.find(part.kind);
           if (found == line.end()) return true;
           if (!*part.name) return part.fits(*found);
           const auto value = found->find(part.name);
           return value != found->end() && part.fits(*value);
         });
}

// Returns the file's length without an unfinished last line.
int64_t whole_lines(const RecordFile& file) {
  std::array<char, kChunk> chunk;
  for (int64_t end = ::lseek(file.descriptor(), 0, SEEK_END); end != 0;) {
    const int64_t begin = std::max<int64_t>(0, end - static_cast<int64_t>(chunk.size()));
    const auto got = end < 0 ? -1 : ::pread(file.descriptor(), chunk.data(), static_cast<size_t>(end - begin), begin);
    if (got < 0) throw_file_error("read", file.path(), errno);
    if (got == 0) return end;
    const auto newline = std::string_view(chunk.data(), static_cast<size_t>(got)).rfind('\n');
    if (newline != std::string_view::npos) return begin + static_cast<int64_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

}  // namespace

SpoolWriter::SpoolWriter(const std::filesystem::path& file) {
  file_.open(file);
  if (::ftruncate(file_.descriptor(), whole_lines(file_)) != 0) throw_file_error("write", file, errno);
  file_.sync();
}

void SpoolWriter::append(const std::vector<Json>& lines) {
  std::string text;
  for (const auto& line : lines) text += text_of(line) + "\n";
  file_.append(text);
}

SpoolReader::~SpoolReader() {
  if (file_ >= 0) close(file_);
}

std::optional<SpoolReader::Line> SpoolReader::line_at(int64_t offset) {
  const auto buffered_end = buffer_begin_ + static_cast<int64_t>(buffer_.size());
  if (offset < buffer_begin_ || offset > buffered_end) {
    buffer_.clear();
    buffer_begin_ = offset;
  }
  size_t begin = static_cast<size_t>(offset - buffer_begin_);
  if (begin > kMostBuffered) {
    buffer_.erase(0, begin);
    buffer_begin_ = offset;
    begin = 0;
  }
  size_t newline = buffer_.find('\n', begin);
  for (size_t searched = buffer_.size(); newline == std::string::npos; newline = buffer_.find('\n', searched)) {
    searched = buffer_.size();
    if (!read_more()) return std::nullopt;
  }
  const auto text = std::string_view(buffer_).substr(begin, newline - begin);
  auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!is_ours(json)) json = Json(Json::value_t::discarded);
  return Line{std::move(json), buffer_begin_ + static_cast<int64_t>(newline) + 1};
}

bool SpoolReader::read_more() {
  if (file_ < 0) file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0 && errno == ENOENT) return false;
  if (file_ < 0) throw_file_error("read", path_, errno);
  const size_t had = buffer_.size();
  buffer_.resize(had + kChunk);
  const auto got = pread(file_, buffer_.data() + had, kChunk, buffer_begin_ + static_cast<int64_t>(had));
  const int error = errno;
  buffer_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && error != EINTR) throw_file_error("read", path_, error);
  return got > 0;
}

}  // namespace ddprun::mlflow

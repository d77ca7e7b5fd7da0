// SPDX-License-Identifier: MIT
#include "runs/json_lines.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

namespace ddprun {
namespace {

constexpr int kMostNesting = 32;  // as of parse_recorded_json()

// Collects the direct members of the outermost object.
class Collector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Collector(FlatObject& object) : object_(object) {}

  bool null() override { return number(std::nan("")); }
  bool boolean(bool) override { return depth_ > 0; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 1) object_.texts.emplace_back(std::move(key_), std::move(value));
    return depth_ > 0;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return ++depth_ <= kMostNesting; }
  bool key(string_t& value) override {
    if (depth_ == 1) key_ = std::move(value);
    return true;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return depth_ > 0 && ++depth_ <= kMostNesting; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool number(double value) {
    if (depth_ == 1) object_.numbers.emplace_back(std::move(key_), value);
    return depth_ > 0;
  }

  FlatObject& object_;
  std::string key_;
  int depth_ = 0;
};

}  // namespace

std::optional<FlatObject> FlatObject::parse(std::string_view text) {
  FlatObject object;
  Collector collector(object);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &collector)) return std::nullopt;
  return object;
}

double FlatObject::number(std::string_view name, double fallback) const {
  const auto found = std::ranges::find(numbers, name, &std::pair<std::string, double>::first);
  return found == numbers.end() ? fallback : found->second;
}

int64_t FlatObject::integer(std::string_view name, int64_t fallback) const {
  constexpr double kMost = 9e15;  // beyond that, a double cannot distinguish integers
  const auto value = number(name, static_cast<double>(fallback));
  return std::abs(value) <= kMost ? static_cast<int64_t>(value) : fallback;
}

std::string_view FlatObject::text(std::string_view name) const {
  const auto found = std::ranges::find(texts, name, &std::pair<std::string, std::string>::first);
  return found == texts.end() ? std::string_view() : std::string_view(found->second);
}

namespace {

class BrokenLines {
 public:
  void add(const LineReader& reader) {
    if (reader.line().empty() && !reader.too_long()) return;  // an empty line is no loss
    if (++count_ == 1) first_ = reader.number();
    torn_ = !reader.ended();
  }

  void report(const std::string& file, std::vector<std::string>& problems) const {
    if (count_ == 0 || (count_ == 1 && torn_)) return;
    problems.push_back(file + ":" + std::to_string(first_) + ": not a JSON object; left out" +
                       (count_ > 1 ? ", with " + std::to_string(count_ - 1) + " more" : ""));
  }

 private:
  int64_t count_ = 0, first_ = 0;
  bool torn_ = false;
};

}  // namespace

bool read_json_lines(const std::filesystem::path& file, std::string_view key, std::vector<std::string>& problems,
                     const std::function<void(const FlatObject& object, uint64_t offset)>& visit) {
  LineReader reader(file);
  if (!reader.open()) return false;
  BrokenLines broken;
  while (reader.next()) {
    const auto object = FlatObject::parse(reader.line());
    if (object && !object->text(key).empty()) {
      visit(*object, reader.offset());
    } else {
      broken.add(reader);
    }
  }
  broken.report(file.filename().string(), problems);
  return true;
}

constexpr size_t kChunkBytes = size_t{1} << 16;

LineReader::LineReader(const std::filesystem::path& folder, const std::filesystem::path& name, uint64_t offset)
    : file_(folder / name), fd_(open_below(folder, name)), offset_(offset), next_offset_(offset) {
  if (open() && offset > 0) ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_SET);
}

// Reads more of the file into the buffer; returns false at its end.
bool LineReader::fill() {
  buffer_.erase(0, position_);
  position_ = 0;
  const auto held = buffer_.size();
  buffer_.resize(held + kChunkBytes);
  ssize_t got = 0;
  do got = open() ? ::read(fd_.get(), buffer_.data() + held, kChunkBytes) : 0;
  while (got < 0 && errno == EINTR);
  if (got < 0) throw UserError(file_.string() + ": cannot be read: " + std::strerror(errno));
  buffer_.resize(held + static_cast<size_t>(got));
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
      if (next_offset_ - offset_ > kMostSkippedBytes)
        throw UserError(file_.string() + ":" + std::to_string(number_ + 1) + ": a line of more than " +
                        std::to_string(kMostSkippedBytes >> 20) + " MB, and no row of a run is so long");
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

void AttemptStarts::saw(int64_t attempt, int64_t step) {
  if (!starts_.emplace(attempt, step).second) return;
  const auto later = limits_.upper_bound(attempt);
  if (later != limits_.end() && later->second <= step) return;
  auto first = later;
  while (first != limits_.begin() && std::prev(first)->second >= step) --first;
  limits_.erase(first, later);
  limits_.emplace(attempt, step);
}

int64_t AttemptStarts::last_step(int64_t attempt) const {
  const auto later = limits_.upper_bound(attempt);
  return later == limits_.end() ? std::numeric_limits<int64_t>::max() : later->second;
}

}  // namespace ddprun

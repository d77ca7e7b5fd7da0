// SPDX-License-Identifier: MIT
#include "safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>

namespace ddprun::arrays {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr size_t kMostNamesShown = 20;
constexpr const char* kMetadata = "__metadata__";

std::string number(uint64_t value) { return std::to_string(value); }

std::string_view header_text(const MappedFile& file) {
  if (file.size < kLengthBytes) {
    file.refuse("holds " + number(file.size) + " bytes, fewer than a .safetensors header: it is truncated or none");
  }
  uint64_t length = 0;
  std::memcpy(&length, file.bytes.get(), kLengthBytes);
  if (length > kLargestHeader || length > file.size - kLengthBytes) {
    file.refuse("its first 8 bytes claim a header of " + number(length) + " bytes, the whole file has " +
                number(file.size) + ": it is truncated, or no .safetensors file");
  }
  return {reinterpret_cast<const char*>(file.bytes.get()) + kLengthBytes, length};
}

// Refuses keys that stand twice: which of the two would count is anybody's guess.
json parse(const MappedFile& file, std::string_view text) try {
  std::vector<std::set<std::string>> open_objects;
  auto header = json::parse(text, [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(value.get<std::string>()).second) {
      throw std::runtime_error("the name " + value.dump() + " stands twice");
    }
    return true;
  });
  if (!header.is_object()) throw std::runtime_error("no JSON object");
  return header;
} catch (const std::exception& error) {
  file.refuse(std::string("its .safetensors header is damaged: ") + error.what());
}

uint64_t to_count(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) {
    throw std::runtime_error("found " + value.dump() + " instead of a count");
  }
  return value.get<uint64_t>();
}

// Where a tensor's values begin and end, counted from the end of the header.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Range range_of(const json& info, uint64_t data_bytes) {
  const auto& offsets = info.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw std::runtime_error("data_offsets must be [begin, end]");
  const Range range{to_count(offsets[0]), to_count(offsets[1])};
  if (range.begin > range.end) throw std::runtime_error("data_offsets " + offsets.dump() + " run backwards");
  if (range.end > data_bytes) {
    throw std::runtime_error("its values end at byte " + number(range.end) + " of the data, the file has " +
                             number(data_bytes) + ": it is truncated");
  }
  return range;
}

at::ScalarType dtype_of(const json& info) {
  const auto name = info.at("dtype").get<std::string>();
  std::string all;
  for (const auto& dtype : known_dtypes()) {
    if (dtype.safetensors == name) return dtype.type;
    all += (all.empty() ? "" : ", ") + std::string(dtype.safetensors);
  }
  throw std::runtime_error("dtype " + name + ", expected one of " + all + "; convert it before saving");
}

StoredArray to_array(const MappedFile& file, const uint8_t* data, const std::string& name, const json& info,
                     const Range& range) {
  StoredArray array{.place = file.path.string() + ": tensor \"" + name + "\"", .dtype = dtype_of(info)};
  if (!info.at("shape").is_array()) throw std::runtime_error("its shape is no list");
  for (const auto& extent : info.at("shape")) array.shape.push_back(static_cast<int64_t>(to_count(extent)));
  if (byte_count(array.shape, array.dtype) != range.end - range.begin) {
    throw std::runtime_error("it is " + array.text() + ", but its data_offsets span " +
                             number(range.end - range.begin) + " bytes: the header is damaged");
  }
  array.bytes = {file.bytes, data + range.begin};
  return array;
}

[[noreturn]] void refuse_name(const MappedFile& file, const std::string& name, const json& header) {
  std::string names;
  size_t count = 0;
  for (const auto& [other, info] : header.items()) {
    if (other == kMetadata || ++count > kMostNamesShown) continue;
    names += (names.empty() ? "" : ", ") + other;
  }
  if (count > kMostNamesShown) names += ", ... (" + std::to_string(count) + ")";
  file.refuse("has no tensor \"" + name + "\", but " + (names.empty() ? "none at all" : names) +
              "; name those to use with dataset.input and dataset.target");
}

}  // namespace

std::vector<StoredArray> read_safetensors(const MappedFile& file, const std::vector<std::string>& names) {
  const auto text = header_text(file);
  const auto header = parse(file, text);
  const auto* data = file.bytes.get() + kLengthBytes + text.size();
  const uint64_t data_bytes = file.size - kLengthBytes - text.size();
  std::vector<StoredArray> arrays(names.size());
  uint64_t end = 0;
  for (const auto& [name, info] : header.items()) {
    if (name == kMetadata) continue;
    try {
      const auto range = range_of(info, data_bytes);
      end = std::max(end, range.end);
      for (size_t i = 0; i < names.size(); ++i) {
        if (names[i] == name) arrays[i] = to_array(file, data, name, info, range);
      }
    } catch (const std::exception& error) {
      file.refuse("tensor \"" + name + "\": " + error.what());
    }
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!arrays[i].bytes) refuse_name(file, names[i], header);
  }
  if (end != data_bytes) {
    file.refuse("its header describes " + number(end) + " bytes of values, the file has " + number(data_bytes) +
                "; write it again");
  }
  return arrays;
}

}  // namespace ddprun::arrays

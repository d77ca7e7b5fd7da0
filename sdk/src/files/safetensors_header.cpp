// SPDX-License-Identifier: MIT
#include "safetensors_header.h"

#include "strict_json.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <tuple>

namespace ddprun {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths are read as they lie in the file");

using nlohmann::json;

std::string number(uint64_t value) { return std::to_string(value); }

void check_metadata(const json& metadata) {
  const bool texts = std::all_of(metadata.begin(), metadata.end(), [](const json& value) { return value.is_string(); });
  if (!metadata.is_null() && !(metadata.is_object() && texts))
    throw std::runtime_error("__metadata__ must hold texts by name");
}

// An unknown field might change what the values mean, so it is refused.
SafetensorsEntry parse_entry(const std::string& name, const json& info) {
  if (!info.is_object() || info.size() != 3 || !info.contains("dtype") || !info.contains("shape") ||
      !info.contains("data_offsets"))
    throw std::runtime_error("expected dtype, shape and data_offsets, and nothing else");
  const auto& dtype = info["dtype"];
  const auto& shape = info["shape"];
  const auto& offsets = info["data_offsets"];
  if (!dtype.is_string()) throw std::runtime_error("its dtype is " + describe(dtype) + ", expected a text");
  if (!shape.is_array()) throw std::runtime_error("its shape is " + describe(shape) + ", expected a list");
  if (!offsets.is_array() || offsets.size() != 2) throw std::runtime_error("data_offsets must be [begin, end]");
  SafetensorsEntry entry{
      .name = name, .dtype = dtype.get<std::string>(), .begin = to_count(offsets[0]), .end = to_count(offsets[1])};
  entry.type = dtype_from_name(entry.dtype);
  for (const auto& extent : shape) entry.shape.push_back(static_cast<int64_t>(to_count(extent)));
  return entry;
}

void check_place(const SafetensorsEntry& entry, uint64_t filled, uint64_t data_bytes) {
  if (entry.begin > entry.end)
    throw std::runtime_error("data_offsets [" + number(entry.begin) + ", " + number(entry.end) + "] run backwards");
  if (entry.begin != filled)
    throw std::runtime_error("it begins at " + number(entry.begin) + ", the data before it end at " + number(filled) +
                             (entry.begin > filled ? " (a gap)" : " (an overlap)"));
  if (entry.end > data_bytes)
    throw std::runtime_error("its values end at byte " + number(entry.end) + " of the data, the file has " +
                             number(data_bytes) + ": it is truncated");
}

// A dtype that is not known may be that of a tensor that nobody reads.
void check_extent(const SafetensorsEntry& entry) {
  if (!entry.type) return;
  const auto bytes = byte_count(entry.shape, *entry.type);
  if (!bytes) throw std::runtime_error("its shape is too large");
  if (entry.end - entry.begin != static_cast<uint64_t>(*bytes))
    throw std::runtime_error("its shape and dtype need " + std::to_string(*bytes) + " bytes, its data_offsets span " +
                             number(entry.end - entry.begin));
}

// Calls `use` and adds the tensor's name to what it throws.
template <class Use>
auto naming(const std::string& name, const Use& use) try {
  return use();
} catch (const std::exception& error) {
  throw std::runtime_error("tensor \"" + name + "\": " + error.what());
}

}  // namespace

uint64_t safetensors_header_length(std::string_view first, uint64_t file_bytes) {
  if (file_bytes < kSafetensorsLengthBytes)
    throw std::runtime_error("it holds " + number(file_bytes) + " bytes, fewer than 8: it is truncated or none");
  uint64_t length = 0;
  std::memcpy(&length, first.data(), kSafetensorsLengthBytes);
  const auto claim = "its first 8 bytes claim a header of " + number(length) + " bytes, ";
  if (length > kLargestSafetensorsHeader)
    throw std::runtime_error(claim + "the limit is 100 MB: it is not a .safetensors file");
  if (length > file_bytes - kSafetensorsLengthBytes)
    throw std::runtime_error(claim + "the whole file has " + number(file_bytes) +
                             ": it is truncated, or not a .safetensors file");
  return length;
}

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view text, uint64_t file_bytes) {
  json header;
  try {
    header = parse_strict_json(text);
    if (!header.is_object()) throw std::runtime_error("expected a JSON object, found " + describe(header));
    if (const auto metadata = header.find(kSafetensorsMetadata); metadata != header.end()) check_metadata(*metadata);
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("its header is damaged: ") + error.what());
  }
  std::vector<SafetensorsEntry> entries;
  for (const auto& item : header.items()) {
    if (item.key() == kSafetensorsMetadata) continue;
    if (item.key().size() > kMostNameBytes)
      throw std::runtime_error("a tensor's name has " + number(item.key().size()) + " bytes, at most " +
                               number(kMostNameBytes) + " are read");
    entries.push_back(naming(item.key(), [&] { return parse_entry(item.key(), item.value()); }));
  }
  std::ranges::sort(entries, {}, [](const SafetensorsEntry& entry) { return std::tie(entry.begin, entry.end); });
  const uint64_t first = kSafetensorsLengthBytes + text.size(), data_bytes = file_bytes - first;
  uint64_t filled = 0;
  for (auto& entry : entries) {
    naming(entry.name, [&] {
      check_place(entry, filled, data_bytes);
      check_extent(entry);
    });
    filled = entry.end;
    entry.begin += first;
    entry.end += first;
  }
  if (filled == data_bytes) return entries;
  throw std::runtime_error("its header describes " + number(filled) + " bytes of values, the file has " +
                           number(data_bytes) + "; write it again");
}

}  // namespace ddprun

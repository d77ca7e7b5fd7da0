// SPDX-License-Identifier: MIT
#include "safetensors_file.h"

#include "safetensors_header.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace ddprun::arrays {
namespace {

constexpr size_t kMostNamesShown = 20;

at::ScalarType dtype_of(const std::string& name) {
  std::string all;
  for (const auto& dtype : known_dtypes()) {
    if (dtype.safetensors == name) return dtype.type;
    all += (all.empty() ? "" : ", ") + std::string(dtype.safetensors);
  }
  throw std::runtime_error("dtype " + name + ", expected one of " + all + "; convert it before saving");
}

StoredArray to_array(const MappedFile& file, const uint8_t* data, const SafetensorsEntry& entry) try {
  StoredArray array{.place = file.path.string() + ": tensor \"" + entry.name + "\"",
                    .dtype = dtype_of(entry.dtype),
                    .shape = entry.shape,
                    .bytes = {file.bytes, data + entry.begin}};
  const auto bytes = byte_count(array.shape, array.dtype);
  if (!bytes) throw std::runtime_error("its shape is too large");
  if (*bytes != entry.end - entry.begin) {
    throw std::runtime_error("it is " + array.text() + ", but its data_offsets span " +
                             std::to_string(entry.end - entry.begin) + " bytes: the header is damaged");
  }
  return array;
} catch (const std::runtime_error& error) {
  file.refuse("tensor \"" + entry.name + "\": " + error.what());
}

[[noreturn]] void refuse_name(const MappedFile& file, const std::string& name,
                              const std::vector<SafetensorsEntry>& entries) {
  std::string names;
  for (size_t i = 0; i < std::min(entries.size(), kMostNamesShown); ++i) names += (i ? ", " : "") + entries[i].name;
  if (entries.size() > kMostNamesShown) names += ", ... (" + std::to_string(entries.size()) + ")";
  file.refuse("has no tensor \"" + name + "\", but " + (names.empty() ? "none at all" : names) +
              "; name those to use with dataset.input, dataset.target and dataset.extras");
}

}  // namespace

std::vector<StoredArray> read_safetensors(const MappedFile& file, const std::vector<std::string>& names) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.get()), file.size);
  std::vector<SafetensorsEntry> entries;
  uint64_t header_end = kSafetensorsLengthBytes;
  try {
    const auto length = safetensors_header_length(text, file.size);
    header_end += length;
    entries = parse_safetensors_header(text.substr(kSafetensorsLengthBytes, length), file.size - header_end);
  } catch (const std::runtime_error& error) {
    file.refuse(error.what());
  }
  std::vector<StoredArray> arrays;
  for (const auto& name : names) {
    const auto entry = std::ranges::find(entries, name, &SafetensorsEntry::name);
    if (entry == entries.end()) refuse_name(file, name, entries);
    arrays.push_back(to_array(file, file.bytes.get() + header_end, *entry));
  }
  return arrays;
}

}  // namespace ddprun::arrays

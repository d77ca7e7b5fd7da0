// SPDX-License-Identifier: MIT
#include "safetensors_file.h"

#include <ddprun/safetensors.h>

#include <algorithm>

namespace ddprun::arrays {
namespace {

constexpr size_t kMostNamesShown = 20;

StoredArray to_array(const MappedFile& file, const SafetensorsEntry& entry) {
  if (!entry.type)
    file.refuse("tensor \"" + entry.name + "\": dtype " + entry.dtype +
                ", expected one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL; convert it before saving");
  return {.place = file.path.string() + ": tensor \"" + entry.name + "\"",
          .dtype = *entry.type,
          .shape = entry.shape,
          .bytes = {file.bytes, file.bytes.get() + entry.begin}};
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
  const auto entries = read_safetensors_header(file.path);
  std::vector<StoredArray> arrays;
  for (const auto& name : names) {
    const auto entry = std::ranges::find(entries, name, &SafetensorsEntry::name);
    if (entry == entries.end()) refuse_name(file, name, entries);
    if (entry->end > file.size) file.refuse("it has been changed while it was opened");
    arrays.push_back(to_array(file, *entry));
  }
  return arrays;
}

}  // namespace ddprun::arrays

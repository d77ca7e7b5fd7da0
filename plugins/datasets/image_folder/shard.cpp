// SPDX-License-Identifier: MIT
#include "shard.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <archive.h>
#include <archive_entry.h>
#include <glob.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

namespace ddprun::images {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kTarBlock = 512;          // of a tar; two of zeros end it
constexpr int64_t kMostClasses = 1'000'000;  // a larger number is a mistake
constexpr std::array<std::string_view, 4> kPictures{"jpg", "jpeg", "png", "webp"};

// Where the pictures of a shard lie, and their classes.
struct ShardIndex {
  std::vector<int64_t> offset, bytes, label;
};

// ---- making the index

// The members of one key, which come one after the other.
struct Key {
  std::string name;
  std::optional<int64_t> offset, label;
  int64_t bytes = 0;
};

int64_t class_number(const MappedFile& shard, const std::string& member, std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  int64_t label = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size() || label < 0 || label >= kMostClasses)
    shard.refuse(member + " holds \"" + std::string(text.substr(0, 20)) + "\", expected the number of a class");
  return label;
}

// Collects keys into an index.
class Indexer {
 public:
  explicit Indexer(const MappedFile& shard) : shard_(shard) {}

  void add(const std::string& member, uint64_t offset, uint64_t bytes) {
    const auto slash = member.rfind('/') + 1;  // 0 if there is none
    const auto dot = member.find('.', slash);
    if (dot == std::string::npos || dot == slash) return;  // as webdataset does
    const auto key = member.substr(0, dot), ending = member.substr(dot + 1);
    if (key != key_.name) {
      end_key();
      key_ = {.name = key};
    }
    if (ending == "cls") {
      take(key_.label, class_number(shard_, member, shard_.text().substr(offset, bytes)), member);
    } else if (std::ranges::find(kPictures, ending) != kPictures.end()) {
      take(key_.offset, static_cast<int64_t>(offset), member);
      key_.bytes = static_cast<int64_t>(bytes);
    }
  }

  ShardIndex finish() {
    end_key();
    if (index_.label.empty())
      shard_.refuse("it has no sample: expected pairs of KEY.jpg, .jpeg, .png or .webp, and KEY.cls");
    return std::move(index_);
  }

 private:
  void take(std::optional<int64_t>& place, int64_t value, const std::string& member) const {
    if (place) shard_.refuse(member + ": a second one of its kind for the key " + key_.name);
    place = value;
  }

  void end_key() {
    if (!key_.offset && !key_.label) return;
    if (!key_.offset) shard_.refuse("the key " + key_.name + " has a class and no picture beside it");
    if (!key_.label) shard_.refuse("the key " + key_.name + " has a picture and no " + key_.name + ".cls beside it");
    if (!keys_.insert(key_.name).second) shard_.refuse("the key " + key_.name + " comes twice");
    index_.offset.push_back(*key_.offset);
    index_.bytes.push_back(key_.bytes);
    index_.label.push_back(*key_.label);
  }

  const MappedFile& shard_;
  Key key_;
  std::set<std::string> keys_;
  ShardIndex index_;
};

[[noreturn]] void cut_short(const MappedFile& shard, const std::string& where) {
  shard.refuse("it is cut short" + where + "; copy it again");
}

// A tar ends with two blocks of zeros. Where a copy was broken off between two members, nothing else tells.
void require_end(const MappedFile& shard) {
  const auto text = shard.text();
  const bool whole = text.size() >= 2 * kTarBlock &&
                     text.substr(text.size() - 2 * kTarBlock).find_first_not_of('\0') == std::string_view::npos;
  if (!whole) cut_short(shard, ": the two blocks of zeros that end a tar are missing");
}

ShardIndex make_index(const MappedFile& shard) {
  if (shard.text().starts_with("\x1f\x8b")) shard.refuse("it is compressed; unpack it: samples are read in any order");
  const std::unique_ptr<archive, int (*)(archive*)> reader(archive_read_new(), archive_read_free);
  if (!reader || archive_read_support_format_tar(reader.get()) != ARCHIVE_OK)
    throw std::runtime_error("libarchive cannot start");
  if (archive_read_open_memory(reader.get(), shard.bytes.get(), shard.size) != ARCHIVE_OK) shard.refuse("is not a tar");
  Indexer indexer(shard);
  for (archive_entry* entry = nullptr;;) {
    const int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {  // a warning is of a name that the locale cannot show
      require_end(shard);
      const char* flaw = archive_error_string(reader.get());
      shard.refuse("is not a tar, or a damaged one" + (flaw ? ": " + std::string(flaw) : ""));
    }
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* name = archive_entry_pathname(entry);
    if (!name) name = archive_entry_pathname_utf8(entry);
    if (!name) shard.refuse("has a member whose name is not text");
    const auto offset = static_cast<uint64_t>(archive_filter_bytes(reader.get(), 0));
    const auto bytes = static_cast<uint64_t>(archive_entry_size(entry));
    if (bytes > shard.size || offset > shard.size - bytes) cut_short(shard, std::string(" in ") + name);
    indexer.add(name, offset, bytes);
  }
  require_end(shard);
  return indexer.finish();
}

// ---- keeping the index

fs::path index_of(const fs::path& shard) { return shard.string() + ".index"; }

at::Tensor as_tensor(std::vector<int64_t>& values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kLong);
}

void write_index(const MappedFile& shard, ShardIndex& index) {
  const auto file = index_of(shard.path);
  const auto draft = file.string() + ".tmp-" + std::to_string(::getpid());
  write_safetensors(draft, {{"offset", as_tensor(index.offset)},
                            {"bytes", as_tensor(index.bytes)},
                            {"label", as_tensor(index.label)},
                            {"shard_bytes", at::tensor({static_cast<int64_t>(shard.size)}, at::kLong)}});
  rename_durably(draft, file);
}

std::vector<int64_t> numbers(const TensorDict& tensors, const char* name, const fs::path& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.scalar_type() != at::kLong || found->second.dim() != 1)
    throw UserError(file.string() + ": it has no int64 tensor \"" + name + "\" of one dimension; delete it");
  const auto* first = found->second.const_data_ptr<int64_t>();
  return {first, first + found->second.numel()};
}

// Returns nothing if the shard has another size than it had.
std::optional<ShardIndex> read_index(const MappedFile& shard) {
  const auto file = index_of(shard.path);
  const auto tensors = read_safetensors(file);
  ShardIndex index{numbers(tensors, "offset", file), numbers(tensors, "bytes", file), numbers(tensors, "label", file)};
  const auto size = static_cast<int64_t>(shard.size);
  if (numbers(tensors, "shard_bytes", file) != std::vector{size}) return std::nullopt;
  bool fits = index.bytes.size() == index.offset.size() && index.label.size() == index.offset.size();
  for (size_t i = 0; fits && i < index.offset.size(); ++i)
    fits = index.offset[i] >= static_cast<int64_t>(kTarBlock) && index.bytes[i] >= 0 && index.offset[i] <= size &&
           index.bytes[i] <= size - index.offset[i] && index.label[i] >= 0 && index.label[i] < kMostClasses;
  if (!fits) throw UserError(file.string() + ": it is not the index of its shard; delete it");
  return index;
}

ShardIndex index_for(const MappedFile& shard, const Progress& progress, bool& writes) {
  std::error_code ignored;
  if (fs::exists(index_of(shard.path), ignored)) {
    if (auto index = read_index(shard)) return std::move(*index);
  }
  auto index = make_index(shard);
  if (!writes) return index;
  try {
    write_index(shard, index);
  } catch (const UserError& error) {
    writes = false;
    progress(std::string(error.what()) + "; so each process reads the headers of all shards itself", 0, 0);
  }
  return index;
}

// ---- the list

std::vector<std::string> read_class_names(const fs::path& folder) {
  const auto file = folder / "classes.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  std::ifstream stream(file, std::ios::binary);
  const auto names = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  const bool texts = names.is_array() && std::ranges::all_of(names, [](const auto& name) { return name.is_string(); });
  if (!texts || names.empty()) throw UserError(file.string() + ": expected a list of the classes' names");
  return names;
}

std::string class_text(const SampleList& list, size_t label) {
  const auto number = std::to_string(label);
  return list.class_names[label] == number ? number : number + ", " + list.class_names[label] + ",";
}

// Counts the classes where no list names them, and checks them.
void settle_classes(SampleList& list) {
  int64_t most = -1;
  for (const auto& sample : list.of(Split::kTrain)) most = std::max(most, sample.label);
  const bool named = !list.class_names.empty();
  if (!named) {
    for (int64_t label = 0; label <= most; ++label) list.class_names.push_back(std::to_string(label));
  }
  std::vector<bool> trained(list.class_names.size());
  for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
    for (const auto& sample : list.of(split)) {
      const auto label = static_cast<size_t>(sample.label);
      if (label >= list.class_names.size())
        throw UserError(sample.picture.text() + ": its class is " + std::to_string(label) + ", " +
                        (named ? "classes.json ends with " : "the last of train is ") +
                        std::to_string(list.class_names.size() - 1));
      if (split == Split::kTrain) trained[label] = true;
    }
  }
  const auto missing = std::ranges::find(trained, false);
  if (missing != trained.end())
    throw UserError(list.place + ": the class " + class_text(list, static_cast<size_t>(missing - trained.begin())) +
                    " has no picture in train");
}

Shards expanded(const std::string& pattern) {
  const auto open = pattern.find('{'), close = pattern.find('}', open), dots = pattern.find("..", open);
  if (open == std::string::npos) return {};
  const auto refuse = [&] {
    throw UserError(pattern + ": expected {FIRST..LAST} between braces, as in train-{000000..000127}.tar");
  };
  if (close == std::string::npos || dots == std::string::npos || dots > close) refuse();
  const auto first = pattern.substr(open + 1, dots - open - 1), last = pattern.substr(dots + 2, close - dots - 2);
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() < 9 && std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
  };
  if (!is_number(first) || !is_number(last) || std::stol(first) > std::stol(last)) refuse();
  Shards files;
  for (long number = std::stol(first); number <= std::stol(last); ++number) {
    auto digits = std::to_string(number);
    digits.insert(0, first.size() - std::min(digits.size(), first.size()), '0');
    files.emplace_back(pattern.substr(0, open) + digits + pattern.substr(close + 1));
  }
  return files;
}

}  // namespace

Shards find_shards(const fs::path& pattern) {
  if (auto files = expanded(pattern.string()); !files.empty()) return files;
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&found, ::globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &found) != 0)
    throw UserError(pattern.string() + ": no such file; expected a tar, or a pattern of several");
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

SampleList list_shards(const std::array<Shards, 3>& splits, const Progress& progress) {
  const auto& first = splits[0].at(0);
  SampleList list{.place = first.parent_path().string(), .class_names = read_class_names(first.parent_path())};
  int64_t done = 0, all = 0;
  for (const auto& shards : splits) all += static_cast<int64_t>(shards.size());
  bool writes = true;
  for (size_t split = 0; split < splits.size(); ++split) {
    for (const auto& file : splits[split]) {
      progress("reading the index of " + file.filename().string(), done++, all);
      const auto shard = std::make_shared<const MappedFile>(map_file(file));
      const auto index = index_for(*shard, progress, writes);
      for (size_t i = 0; i < index.offset.size(); ++i)
        list.splits[split].push_back(
            {{shard, static_cast<uint64_t>(index.offset[i]), static_cast<uint64_t>(index.bytes[i])}, index.label[i]});
    }
  }
  settle_classes(list);
  return list;
}

}  // namespace ddprun::images

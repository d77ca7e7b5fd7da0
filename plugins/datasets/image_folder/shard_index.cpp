// SPDX-License-Identifier: MIT
#include "shard_index.h"

#include "shard_members.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>
#include <strict_json.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace ddprun::images {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kComparedOfMany = 64;

fs::path index_of(const fs::path& shard) { return shard.string() + ".index"; }

int64_t mtime_ns(const fs::path& shard) {
  struct stat status {};
  if (::stat(shard.c_str(), &status) != 0) throw_file_error("read", shard, errno);
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// ---- writing

at::Tensor as_tensor(std::vector<int64_t>& values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kLong);
}

std::string to_json(const std::vector<LeftAlone>& left_alone) {
  auto list = Json::array();
  for (const auto& one : left_alone)
    list.push_back({{"reason", one.reason}, {"count", one.count}, {"examples", one.examples}});
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);  // a name need not be UTF-8
}

// Reserves a name beside the file, which no other process has, on this machine or on another.
fs::path new_draft_of(const fs::path& file) {
  auto name = file.string() + ".tmp-XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) throw_file_error("write", file, errno);
  ::close(fd);
  return name;
}

void write_index(const MappedFile& shard, int64_t mtime, ShardIndex& index) {
  auto left_alone = to_json(index.left_alone);
  TensorDict tensors{{"offset", as_tensor(index.offset)},
                     {"bytes", as_tensor(index.bytes)},
                     {"label", as_tensor(index.label)},
                     {"class_offset", as_tensor(index.class_offset)},
                     {"check", as_tensor(index.check)},
                     {"shard_bytes", at::tensor({static_cast<int64_t>(shard.size)}, at::kLong)},
                     {"shard_mtime_ns", at::tensor({mtime}, at::kLong)}};
  if (!index.left_alone.empty())
    tensors["left_alone"] = at::from_blob(left_alone.data(), {static_cast<int64_t>(left_alone.size())}, at::kByte);
  const auto draft = new_draft_of(index_of(shard.path));
  write_safetensors(draft, tensors);
  rename_durably(draft, index_of(shard.path));
}

// ---- reading

[[noreturn]] void refuse_index(const fs::path& file, const std::string& flaw) {
  throw UserError(file.string() + ": " + flaw + "; delete it");
}

std::vector<int64_t> numbers(const TensorDict& tensors, const char* name, const fs::path& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.scalar_type() != at::kLong || found->second.dim() != 1)
    refuse_index(file, std::string("it has no int64 tensor \"") + name + "\" of one dimension");
  const auto* first = found->second.const_data_ptr<int64_t>();
  return {first, first + found->second.numel()};
}

std::vector<LeftAlone> left_alone_in(const TensorDict& tensors, const fs::path& file) try {
  const auto found = tensors.find("left_alone");
  if (found == tensors.end()) return {};
  const auto bytes = found->second.contiguous();
  const std::string_view text(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  std::vector<LeftAlone> list;
  for (const auto& one : parse_strict_json(text))
    list.push_back({.reason = one.at("reason").get<std::string>(),
                    .count = static_cast<int64_t>(to_count(one.at("count"))),
                    .examples = one.at("examples").get<std::vector<std::string>>()});
  return list;
} catch (const std::exception& error) {
  refuse_index(file, std::string("its left_alone is damaged: ") + error.what());
}

bool fits(const ShardIndex& index, int64_t shard_bytes) {
  const auto count = index.offset.size();
  for (const auto* list : {&index.bytes, &index.label, &index.class_offset, &index.check}) {
    if (list->size() != count) return false;
  }
  constexpr auto kOne = static_cast<int64_t>(kTarBlock);
  for (size_t i = 0; i < count; ++i) {
    const bool lies_in = index.offset[i] >= kOne && index.bytes[i] >= 0 && index.offset[i] <= shard_bytes &&
                         index.bytes[i] <= shard_bytes - index.offset[i] && index.class_offset[i] >= kOne &&
                         index.class_offset[i] <= shard_bytes - kOne;
    if (!lies_in || index.label[i] < 0 || index.label[i] >= kMostClasses || index.check[i] < 0 ||
        index.check[i] > UINT32_MAX)
      return false;
  }
  return count > 0;
}

bool is_of(const MappedFile& shard, const ShardIndex& index, size_t sample) {
  const auto picture = static_cast<uint64_t>(index.offset[sample]);
  const auto class_begin = static_cast<uint64_t>(index.class_offset[sample]);
  return members_check(shard, picture, class_begin) == index.check[sample];
}

// Compares what the index was made of with what the shard holds.
bool is_of(const MappedFile& shard, const ShardIndex& index, Compare compare) {
  const auto count = index.offset.size();
  const auto looked_at = compare == Compare::kAll ? count : std::min<size_t>(count, kComparedOfMany);
  for (size_t i = 0; i < looked_at; ++i) {
    if (!is_of(shard, index, looked_at == 1 ? 0 : i * (count - 1) / (looked_at - 1))) return false;
  }
  return true;
}

// What the file beside a shard is: its index, or the reason why it is rebuilt.
struct Found {
  std::optional<ShardIndex> index;
  std::string flaw;
};

Found read_index(const MappedFile& shard, int64_t mtime, Compare compare) {
  const auto file = index_of(shard.path);
  const auto tensors = read_safetensors(file);
  ShardIndex index{.offset = numbers(tensors, "offset", file),
                   .bytes = numbers(tensors, "bytes", file),
                   .label = numbers(tensors, "label", file)};
  const auto of_bytes = numbers(tensors, "shard_bytes", file);
  index.class_offset = numbers(tensors, "class_offset", file);
  index.check = numbers(tensors, "check", file);
  index.left_alone = left_alone_in(tensors, file);
  const auto size = static_cast<int64_t>(shard.size);
  if (of_bytes != std::vector{size}) return {{}, "the shard has another size than it had"};
  if (numbers(tensors, "shard_mtime_ns", file) != std::vector{mtime}) return {{}, "the shard was changed after it"};
  if (!fits(index, size)) refuse_index(file, "it is not the index of its shard");
  if (!is_of(shard, index, compare)) return {{}, "the shard has other members than it had"};
  return {std::move(index), ""};
}

}  // namespace

ShardIndex index_for(const MappedFile& shard, Compare compare, const Progress& progress, bool& writes) {
  const auto mtime = mtime_ns(shard.path);
  std::error_code ignored;
  if (fs::exists(index_of(shard.path), ignored)) {
    auto found = read_index(shard, mtime, compare);
    if (found.index) return std::move(*found.index);
    progress(index_of(shard.path).string() + " is rebuilt: " + found.flaw, 0, 0);
  }
  auto index = read_members(shard);
  if (!writes) return index;
  try {
    write_index(shard, mtime, index);
  } catch (const UserError& error) {
    writes = false;
    progress(std::string(error.what()) + "; so each process reads the headers of all shards itself", 0, 0);
  }
  return index;
}

}  // namespace ddprun::images

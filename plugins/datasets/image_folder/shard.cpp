// SPDX-License-Identifier: MIT
#include "shard.h"

#include "shard_index.h"

#include <ddprun/error.h>

#include <glob.h>
#include <nlohmann/json.hpp>
#include <strict_json.h>

#include <algorithm>
#include <exception>
#include <system_error>

namespace ddprun::images {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostShards = 1'000'000;

std::vector<std::string> read_class_names(const fs::path& folder) {
  const auto file = folder / "classes.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  const auto text = map_file(file);
  try {
    return class_names_in(text.text());
  } catch (const std::exception& error) {
    text.refuse(error.what());
  }
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

// Appends the names that a pattern gives with each number in place of {FIRST..LAST}, once for each pair of braces.
void expand(const std::string& pattern, std::vector<std::string>& names) {
  const auto open = pattern.find('{'), close = pattern.find('}', open), dots = pattern.find("..", open);
  const auto refuse = [&](const std::string& expected) { throw UserError(pattern + ": expected " + expected); };
  if (open == std::string::npos) {
    if (names.size() == kMostShards) refuse("no more than " + std::to_string(kMostShards) + " files");
    names.push_back(pattern);
    return;
  }
  constexpr auto kForm = "{FIRST..LAST} between braces, as in train-{000000..000127}.tar";
  if (close == std::string::npos || dots == std::string::npos || dots > close) refuse(kForm);
  const auto first = pattern.substr(open + 1, dots - open - 1), last = pattern.substr(dots + 2, close - dots - 2);
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() < 9 && std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
  };
  if (!is_number(first) || !is_number(last) || std::stol(first) > std::stol(last)) refuse(kForm);
  for (long number = std::stol(first); number <= std::stol(last); ++number) {
    auto digits = std::to_string(number);
    digits.insert(0, first.size() - std::min(digits.size(), first.size()), '0');
    expand(pattern.substr(0, open) + digits + pattern.substr(close + 1), names);
  }
}

// Returns the pattern with what is there taken as it is written: "data[1]" may be a folder.
std::string with_what_exists(const fs::path& pattern, fs::path& existing) {
  std::error_code ignored;
  auto part = pattern.begin();
  while (part != pattern.end() && fs::exists(existing / *part, ignored)) existing /= *part++;
  fs::path rest;
  while (part != pattern.end()) rest /= *part++;
  return rest.string();
}

std::string escaped(const fs::path& path) {
  std::string text;
  for (const char letter : path.string()) {
    if (std::string_view("\\?*[").find(letter) != std::string_view::npos) text += '\\';
    text += letter;
  }
  return text;
}

void add(std::vector<LeftAlone>& all, const std::vector<LeftAlone>& of_shard) {
  for (const auto& one : of_shard) {
    const auto known = std::ranges::find(all, one.reason, &LeftAlone::reason);
    if (known == all.end()) {
      all.push_back(one);
    } else {
      known->count += one.count;
    }
  }
}

void add(Samples& samples, const std::shared_ptr<const MappedFile>& shard, const ShardIndex& index) {
  const auto place = [](int64_t byte) { return static_cast<uint64_t>(byte); };
  for (size_t i = 0; i < index.offset.size(); ++i) {
    samples.push_back({{shard, place(index.offset[i]), place(index.bytes[i]), place(index.class_offset[i]),
                        static_cast<uint32_t>(index.check[i])},
                       index.label[i]});
  }
}

}  // namespace

Shards find_shards(const fs::path& pattern) {
  fs::path existing;
  const auto rest = with_what_exists(pattern, existing);
  if (rest.empty()) return {pattern};
  if (rest.find('{') != std::string::npos) {
    std::vector<std::string> names;
    expand(rest, names);
    Shards files;
    for (const auto& name : names) files.push_back(existing / name);
    return files;
  }
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&found, ::globfree);
  const auto whole = existing.empty() ? rest : escaped(existing / "") + rest;
  if (::glob(whole.c_str(), 0, nullptr, &found) != 0)
    throw UserError(pattern.string() + ": no such file; expected a tar, or a pattern of several");
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

SampleList list_shards(const std::array<Shards, 3>& splits, const Progress& progress, Compare compare) {
  const auto& first = splits[0].at(0);
  SampleList list{.place = first.parent_path().string(), .class_names = read_class_names(first.parent_path())};
  int64_t done = 0, all = 0;
  for (const auto& shards : splits) all += static_cast<int64_t>(shards.size());
  bool writes = true;
  for (size_t split = 0; split < splits.size(); ++split) {
    for (const auto& file : splits[split]) {
      progress("reading the index of " + file.filename().string(), done++, all);
      const auto shard = std::make_shared<const MappedFile>(map_file(file));
      const auto index = index_for(*shard, compare, progress, writes);
      add(list.splits[split], shard, index);
      add(list.account.left_alone, index.left_alone);
    }
  }
  settle_classes(list);
  return list;
}

}  // namespace ddprun::images

// SPDX-License-Identifier: MIT
#include "sample_list.h"

#include "shown_text.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>
#include <ddprun/file_error.h>
#include <ddprun/files.h>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>

namespace ddprun::images {
namespace {

constexpr uint64_t kHoldOutStream =
    0x666F6C6465720000;  // "folder": distinct from other uses of the seed; the split is added
constexpr size_t kMostProblemsShown = 20;
constexpr int64_t kBlock = 64;  // files that a thread takes at once

// Calls work(i) for each number below `count`, on several threads; work() throws nothing. `progress` is called on this
// one.
void on_threads(size_t count, const std::function<void(size_t)>& work, const std::function<void(int64_t)>& progress) {
  std::atomic<size_t> next = 0;
  const auto take_block = [&] {
    const size_t begin = next.fetch_add(kBlock), end = std::min(begin + kBlock, count);
    for (size_t i = begin; i < end; ++i) work(i);
    return begin < count;
  };
  const auto cores = std::clamp<unsigned>(std::thread::hardware_concurrency(), 1, 16);
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < cores && count > kBlock; ++i) {
    others.emplace_back([&] {
      while (take_block()) {
      }
    });
  }
  while (take_block()) progress(static_cast<int64_t>(std::min(next.load(), count)));
}

// Returns the problems of a split by sample number.
std::map<size_t, std::string> problems_of(const Samples& samples, const Reading& how, bool decode_all,
                                          const std::function<void(int64_t)>& progress) {
  std::map<size_t, std::string> problems;
  std::mutex mutex;
  const auto check = [&](size_t i) {
    try {
      check_file(samples[i].picture, how, decode_all);
    } catch (const std::exception& error) {
      std::scoped_lock lock(mutex);
      problems[i] = error.what();
    }
  };
  on_threads(samples.size(), check, progress);
  return problems;
}

std::vector<int64_t> labels_of(const Samples& samples) {
  std::vector<int64_t> labels;
  for (const auto& sample : samples) labels.push_back(sample.label);
  return labels;
}

uint64_t size_of(const Picture& picture) {
  std::error_code unreadable;  // 0 then
  if (picture.shard) return picture.size;
  const auto size = std::filesystem::file_size(picture.file, unreadable);
  return unreadable ? 0 : size;
}

// What distinguishes one content of a file from another.
struct FileState {
  uint64_t size = 0, inode = 0;
  int64_t changed_ns = 0, status_changed_ns = 0;
};

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileState state_of(const Picture& picture) {
  struct stat found {};
  const auto path = picture.shard ? picture.shard->path.string() : picture.file;
  if (::stat(path.c_str(), &found) != 0) return {};
  return {static_cast<uint64_t>(found.st_size), found.st_ino, nanoseconds(found.st_mtim), nanoseconds(found.st_ctim)};
}

// Returns a digest of all that decoding depends on.
std::string state_of(const SampleList& list, const Reading& how) {
  Sha256 sha;
  const auto add = [&](const auto& value) { sha.update(&value, sizeof value); };
  add(how.most_pixels);
  add(how.least_side);
  for (const auto& samples : list.splits) {
    std::vector<FileState> states(samples.size());
    on_threads(samples.size(), [&](size_t i) { states[i] = state_of(samples[i].picture); }, [](int64_t) {});
    add(states.size());
    sha.update(states.data(), states.size() * sizeof(FileState));
    for (const auto& [picture, label] : samples) {
      sha.update(picture.file.c_str(), picture.file.size() + 1);
      for (const auto number : {picture.begin, picture.size, uint64_t{picture.check}}) add(number);
    }
  }
  return sha.hex();
}

// Returns where the memory of a list is kept, one file for each place; empty if there is no cache.
std::filesystem::path memory_of(const SampleList& list) {
  const auto cache = cache_folder();
  Sha256 sha;
  sha.update(list.place.data(), list.place.size());
  return cache.empty() ? cache : cache / "unreadable" / sha.hex();
}

// Moves the marked training samples to another split.
void move_marked(SampleList& list, Split split, const std::vector<bool>& moved) {
  auto& train = list.of(Split::kTrain);
  Samples rest;
  for (size_t i = 0; i < train.size(); ++i) (moved[i] ? list.of(split) : rest).push_back(std::move(train[i]));
  train = std::move(rest);
}

// Returns a name without what people overlook in it.
std::string plain(const std::string& name) {
  std::string result;
  for (const unsigned char c : name)
    if (c > ' ') result += static_cast<char>('A' <= c && c <= 'Z' ? c | 32 : c);
  const bool is_number = std::ranges::all_of(result, [](char c) { return '0' <= c && c <= '9'; });
  while (is_number && result.size() > 1 && result.front() == '0') result.erase(0, 1);
  return result;
}

}  // namespace

std::string name_flaw(const std::string& name) {
  if (!is_utf8(name)) return "is not UTF-8";
  return shown(name) == name ? "" : "has a control character";
}

bool are_alike(const std::string& one, const std::string& other) { return plain(one) == plain(other); }

std::optional<std::pair<std::string, std::string>> find_alike(const std::vector<std::string>& names) {
  std::map<std::string, std::string> seen;
  for (const auto& name : names) {
    const auto [other, is_new] = seen.emplace(plain(name), name);
    if (!is_new) return std::pair(other->second, name);
  }
  return std::nullopt;
}

void leave(DataAccount& account, const std::string& reason, const std::string& example, int64_t count) {
  constexpr size_t kMostReasons = 16, kExamples = 3;
  auto& reasons = account.left_alone;
  auto found = std::ranges::find(reasons, reason, &LeftAlone::reason);
  if (found == reasons.end() && reasons.size() >= kMostReasons)
    found = std::ranges::find(reasons, "of other kinds", &LeftAlone::reason);
  if (found == reasons.end())
    found = reasons.insert(found, {.reason = reasons.size() < kMostReasons ? reason : "of other kinds"});
  found->count += count;
  if (found->examples.size() < kExamples) found->examples.push_back(example);
}

std::string digest_of(const SampleList& list) {
  Sha256 sha;
  const auto root = list.root.string();
  for (size_t split = 0; split < list.splits.size(); ++split) {
    const auto& samples = list.splits[split];
    std::vector<uint64_t> sizes(samples.size());
    on_threads(samples.size(), [&](size_t i) { sizes[i] = size_of(samples[i].picture); }, [](int64_t) {});
    for (size_t i = 0; i < samples.size(); ++i) {
      auto name = samples[i].picture.text();
      if (name.starts_with(root)) name.erase(0, root.size());
      const auto line = std::to_string(split) + " " + std::to_string(samples[i].label) + " " +
                        std::to_string(sizes[i]) + " " + name + "\n";
      sha.update(line.data(), line.size());
    }
  }
  return sha.hex();
}

void hold_out(SampleList& list, Split split, int64_t count, uint64_t seed) {
  auto& train = list.of(Split::kTrain);
  const auto there = list.of(split).size();
  if (there > 0 || count < 1 || count >= static_cast<int64_t>(train.size())) {
    const std::string name = split_name(split);
    throw UserError(list.place + ": cannot hold out " + std::to_string(count) + " of " + std::to_string(train.size()) +
                    " training images as " + name + ", which has " + std::to_string(there) + "; change dataset." +
                    name + "_fraction");
  }
  const auto labels = labels_of(train);
  const auto moved = choose_evenly(labels, count, seed, kHoldOutStream + static_cast<uint64_t>(split));
  move_marked(list, split, moved);
}

void hold_out(SampleList& list, const Fold& fold, uint64_t seed) {
  if (!list.of(Split::kVal).empty())
    throw UserError(list.place + ": it has a split val; leave out dataset.folds, or divide a folder without one");
  const auto folds = assign_folds(labels_of(list.of(Split::kTrain)), fold.count, seed);
  std::vector<bool> moved;
  for (const int64_t number : folds) moved.push_back(number == fold.number);
  move_marked(list, Split::kVal, moved);
}

Unreadable find_unreadable(const SampleList& list, const Reading& how, bool decode_all,
                           const std::function<void(int64_t, int64_t)>& progress) {
  int64_t total = 0, done = 0;
  for (const auto& samples : list.splits) total += static_cast<int64_t>(samples.size());
  Unreadable found;
  for (size_t split = 0; split < list.splits.size(); ++split) {
    const auto& samples = list.splits[split];
    found.marks[split].resize(samples.size());
    for (const auto& [sample, problem] :
         problems_of(samples, how, decode_all, [&](int64_t some) { progress(done + some, total); })) {
      found.marks[split][sample] = true;
      found.problems.push_back(problem);
    }
    done += static_cast<int64_t>(samples.size());
  }
  return found;
}

// A line with the state of all files, then one with the split and the number of each sample that cannot be read.
void remember(const SampleList& list, const Reading& how, const Unreadable& found) {
  const auto file = memory_of(list);
  if (file.empty()) return;
  std::ostringstream text;
  text << state_of(list, how) << "\n";
  for (size_t split = 0; split < found.marks.size(); ++split)
    for (size_t i = 0; i < found.marks[split].size(); ++i)
      if (found.marks[split][i]) text << split << " " << i << "\n";
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);  // replace_file() says what is wrong
  replace_file(file, text.str());
}

std::optional<Unreadable> recall(const SampleList& list, const Reading& how) {
  const auto file = memory_of(list);
  const auto text = file.empty() ? std::nullopt : read_file(file);
  std::istringstream lines(text.value_or(""));
  std::string state;
  if (!std::getline(lines, state) || state != state_of(list, how)) return std::nullopt;
  Unreadable found;
  for (size_t split = 0; split < list.splits.size(); ++split) found.marks[split].resize(list.splits[split].size());
  for (size_t split = 0, sample = 0; lines >> split >> sample;) {
    if (split >= found.marks.size() || sample >= found.marks[split].size()) return std::nullopt;
    found.marks[split][sample] = true;
  }
  return lines.eof() ? std::optional(std::move(found)) : std::nullopt;
}

std::string text_of(const Unreadable& found) {
  std::string text = std::to_string(found.problems.size()) +
                     (found.problems.size() == 1 ? " image cannot be read:" : " images cannot be read:");
  for (size_t i = 0; i < found.problems.size(); ++i) {
    if (i == kMostProblemsShown) return text + "\n  and " + std::to_string(found.problems.size() - i) + " more";
    text += "\n  " + found.problems[i];
  }
  return text;
}

void remove(SampleList& list, const Unreadable& found) {
  for (size_t split = 0; split < list.splits.size(); ++split) {
    Samples kept;
    for (size_t i = 0; i < list.splits[split].size(); ++i) {
      auto& sample = list.splits[split][i];
      if (found.marks[split][i]) leave(list.account, "unreadable", sample.picture.text());
      (found.marks[split][i] ? list.removed : kept).push_back(std::move(sample));
    }
    list.splits[split] = std::move(kept);
  }
}

}  // namespace ddprun::images

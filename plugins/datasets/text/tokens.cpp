// SPDX-License-Identifier: MIT
// Next-token prediction on texts that a tokenizer has turned into numbers, of any length: the files are mapped.
//
// A sample is a window of `context` tokens; its target is the same window moved on by one. Windows follow one another
// in a file, and none reaches into the next file.
#include "token_file.h"
#include "windows.h"

#include <ddprun/data_digest.h>
#include <ddprun/dataset.h>
#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace {

using ddprun::Split;
using ddprun::text::TokenFile;
using ddprun::text::TokenForm;
using Paths = std::vector<std::filesystem::path>;

// The last token of a file is only a target.
int64_t windows_in(const TokenFile& file, int64_t context) { return (file.size() - 1) / context; }

// The windows of a split, file by file.
class Windows {
 public:
  Windows(const Paths& paths, const TokenForm& form, int64_t context) : context_(context) {
    for (const auto& path : paths) {
      const auto& file = files_.emplace_back(path, form);
      const int64_t windows = windows_in(file, context);
      if (windows == 0)
        throw ddprun::UserError(file.path().string() + ": it has " + std::to_string(file.size()) +
                                " tokens, expected at least " + std::to_string(context + 1) +
                                ": a window of dataset.context and one more");
      ends_.push_back(size() + windows);
    }
  }

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  const std::vector<TokenFile>& files() const { return files_; }

  // Copies the window's context + 1 tokens.
  void copy(int64_t window, std::span<int64_t> out) const {
    const auto end = std::ranges::upper_bound(ends_, window);
    const int64_t before = end == ends_.begin() ? 0 : *std::prev(end);
    files_[static_cast<size_t>(end - ends_.begin())].copy((window - before) * context_, out);
  }

 private:
  int64_t context_;
  std::vector<TokenFile> files_;
  std::vector<int64_t> ends_;  // the number of windows up to the end of each file
};

class Tokens final : public ddprun::Dataset {
 public:
  explicit Tokens(ddprun::Options& options) {
    paths_[0] = options.require<Paths>("train", "file of tokens, or several");
    paths_[1] = options.get<Paths>("val", {}, "the same for val");
    paths_[2] = options.get<Paths>("test", {}, "the same for test");
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      const auto& paths = paths_[static_cast<size_t>(split)];
      const bool is_missing = split == Split::kTrain && paths.empty();
      if (options.has(split_name(split)) && (is_missing || std::ranges::any_of(paths, &std::filesystem::path::empty)))
        options.reject(split_name(split), "expected a file or a list of them");
    }
    context_ = options.get<int64_t>("context", 128, "tokens per sample", {.min = 1, .max = 1 << 20});
    const auto dtype = options.choose("dtype", "auto", {"auto", "uint16", "uint32"},
                                      "of a token; auto: as FILE.json or llm.c's header says");
    form_.bits = dtype == "uint16" ? 16 : dtype == "uint32" ? 32 : 0;
    form_.vocabulary = options.get<int64_t>("vocabulary", 0, "how many tokens there are; 0: as FILE.json says",
                                            {.min = 0, .max = 1LL << 32});
  }

  // A file of tokens has a note beside it that says how to read it.
  static std::optional<ddprun::Recognized> recognize(const ddprun::FoundFiles& found) {
    auto files = found.ending_in({".bin"});
    std::erase_if(files, [&](const auto& file) { return !found.has(std::filesystem::path(file) += ".json"); });
    if (files.empty()) return std::nullopt;
    ddprun::Recognized recognized{.what = found.counted(files, "token file")};
    const auto splits = found.by_split(files);
    for (const auto& [split, of_split] : splits) recognized.options.set(split, ddprun::path_values(of_split));
    if (!splits.contains("train"))
      recognized.problem = "no file is of train, and " + found.name_of(files.front()) + " is of " +
                           splits.begin()->first + "; expected train.bin";
    return recognized;
  }

  void prepare(const ddprun::Progress&) override { start(); }  // finds mistakes in the files before workers start
  bool is_prepared() const override { return true; }

  void start() override {
    splits_.clear();
    for (const auto& paths : paths_) splits_.emplace_back(paths, form_, context_);
    const auto& first = splits_[0].files().front();
    for (const auto& split : splits_) {
      for (const auto& file : split.files()) {
        if (file.vocabulary() == first.vocabulary()) continue;
        throw ddprun::UserError(file.path().string() + " has a vocabulary of " + std::to_string(file.vocabulary()) +
                                ", and " + first.path().string() + " one of " + std::to_string(first.vocabulary()) +
                                ": expected files of one tokenizer");
      }
    }
  }

  // The tokens behind a file's last window are too few for one more.
  ddprun::DataAccount account() const override {
    ddprun::DataAccount account{.unit = "token"};
    ddprun::LeftAlone rest{.reason = "behind the last window of their file"};
    ddprun::DataDigest digest;
    digest.add(context_);
    for (const auto& split : splits_) {
      digest.add(split.size());
      for (const auto& file : split.files()) {
        const int64_t used = windows_in(file, context_) * context_ + 1;
        account.used += used;
        if (file.size() > used) rest.examples.push_back(file.path().string());
        rest.count += file.size() - used;
        file.add_to(digest);
      }
    }
    if (rest.count > 0) account.left_alone.push_back(std::move(rest));
    account.digest = digest.hex();
    return account;
  }

  ddprun::DataSpec spec() const override {
    return {.sample_shape = {context_}, .classes = splits_[0].files().front().vocabulary()};
  }

  int64_t size(Split split) const override { return splits_[static_cast<size_t>(split)].size(); }

  ddprun::Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto& windows = splits_[static_cast<size_t>(split)];
    return ddprun::text::gather_windows(indices, context_, windows.size(),
                                        [&](int64_t index, std::span<int64_t> out) { windows.copy(index, out); });
  }

 private:
  std::array<Paths, 3> paths_;  // by Split
  int64_t context_ = 0;
  TokenForm form_;
  std::vector<Windows> splits_;  // by Split
};

}  // namespace

DDPRUN_DATASET(Tokens, "tokens", "next tokens of texts that are files of numbers: nanoGPT's, llm.c's, ddprun-convert's")

// SPDX-License-Identifier: MIT
// Next-token prediction on texts that a tokenizer has turned into numbers, of any length: the files are mapped.
//
// A sample is a window of `context` tokens; its target is the same window moved on by one. Windows follow one another
// in a file, and none reaches into the next file. Documents that lie in one window are kept apart by a separator, if it
// is asked for: documents.h.
#include "documents.h"
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
using ddprun::text::Border;
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
    read_documents(options);
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
    if (documents_) find_separator();
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
    if (documents_) {
      digest.add(border_.separator);
      digest.add(static_cast<int64_t>(border_.is_first));
      account.notes.push_back(note_of_borders());
    }
    account.digest = digest.hex();
    return account;
  }

  ddprun::DataSpec spec() const override {
    ddprun::DataSpec spec{.sample_shape = {context_}, .classes = splits_[0].files().front().vocabulary()};
    if (documents_) ddprun::text::promise_documents(spec, context_, mask_);
    return spec;
  }

  int64_t size(Split split) const override { return splits_[static_cast<size_t>(split)].size(); }

  ddprun::Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto& windows = splits_[static_cast<size_t>(split)];
    const auto copy = [&](int64_t index, std::span<int64_t> out) { windows.copy(index, out); };
    if (!documents_) return ddprun::text::gather_windows(indices, context_, windows.size(), copy);
    ddprun::text::DocumentExtras extras(border_, std::ssize(indices), context_, mask_);
    auto batch = ddprun::text::gather_windows(
        indices, context_, windows.size(), copy,
        [&](std::span<const int64_t> symbols, int64_t* target) { extras.add(symbols, target); });
    std::move(extras).give_to(batch);
    return batch;
  }

 private:
  void read_documents(ddprun::Options& options) {
    documents_ = options.get<bool>("documents", false,
                                   "keep documents that lie in one window apart: the batch says whose each token is, "
                                   "and no document predicts the next one");
    asked_separator_ = options.get<int64_t>("separator", -1, "the token between documents; -1: as FILE.json says",
                                            {.min = -1, .max = 1LL << 32});
    border_.is_first = options.choose("separator_at", "end", {"end", "start"},
                                      "of a document: where the separator stands (llm.c: at its start)") == "start";
    mask_ = options.get<bool>("attention_mask", false,
                              "with documents, give a mask of context x context for each sample, too, as networks of "
                              "transformers take it");
    for (const auto* name : {"separator", "separator_at", "attention_mask"}) {
      if (!documents_ && options.has(name)) options.reject(name, "has no effect without documents: true");
    }
  }

  // Throws UserError unless there is a separator, in each split.
  void find_separator() {
    const auto& first = splits_[0].files().front();
    border_.separator = asked_separator_ >= 0 ? asked_separator_ : first.separator();
    const auto number = std::to_string(border_.separator);
    if (border_.separator < 0)
      throw ddprun::UserError(first.path().string() +
                              ": nothing says which token stands between documents; set dataset.separator (50256 for "
                              "GPT-2's), or dataset.documents=false");
    if (border_.separator >= first.vocabulary())
      throw ddprun::UserError("dataset.separator is " + number + ", but the vocabulary of " + first.path().string() +
                              " ends before it, at " + std::to_string(first.vocabulary()));
    for (const auto& split : splits_) {
      const auto& files = split.files();
      if (files.empty() || std::ranges::any_of(files, [&](const auto& file) { return file.has(border_.separator); }))
        continue;
      throw ddprun::UserError(files.front().path().string() + (files.size() > 1 ? " and the others of its split" : "") +
                              ": no token is the separator " + number +
                              ", so that there are no documents to keep apart; set dataset.separator to the token "
                              "between them, or dataset.documents=false");
    }
  }

  // Says how many targets do not count. It reads the files, at most so many tokens of them.
  std::string note_of_borders() const {
    constexpr int64_t kMostRead = int64_t{1} << 30;
    int64_t targets = 0, borders = 0;
    bool are_all = true;
    for (const auto& split : splits_) {
      for (const auto& file : split.files()) {
        const int64_t all = windows_in(file, context_) * context_, some = std::min(all, kMostRead - targets);
        const int64_t begin = border_.is_first ? 1 : 0;  // the separator is the target, or the token before it
        borders += file.count(border_.separator, begin, begin + some);
        targets += some;
        are_all = are_all && some == all;
      }
    }
    return std::to_string(borders) + " of " + (are_all ? "" : "the first ") + std::to_string(targets) +
           " targets do not count: they begin another document than the token before them";
  }

  std::array<Paths, 3> paths_;  // by Split
  int64_t context_ = 0;
  TokenForm form_;
  bool documents_ = false, mask_ = false;
  int64_t asked_separator_ = -1;
  Border border_;
  std::vector<Windows> splits_;  // by Split
};

}  // namespace

DDPRUN_DATASET(Tokens, "tokens", "next tokens of texts that are files of numbers, such as nanoGPT's and llm.c's")

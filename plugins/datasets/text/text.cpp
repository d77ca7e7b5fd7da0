// SPDX-License-Identifier: MIT
// Next-character prediction on the user's text, or on a text that the plugin generates for a machine without files.
//
// A sample is a window of `context` characters; its target is the same window moved on by one. Windows follow one
// another in their split, and the splits in the text. Symbols are code points, not bytes, so accuracy counts characters
// in any script and no prediction is half a letter.
#include "alphabet.h"
#include "grammar.h"
#include "utf8.h"
#include "windows.h"

#include <ddprun/data_digest.h>
#include <ddprun/dataset.h>
#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

namespace {

using ddprun::Split;
using Path = std::filesystem::path;

constexpr uint64_t kStream = 0x7465787400000000;  // "text": distinct from other uses of the seed

// A range of characters of the text.
struct Part {
  int64_t begin = 0, size = 0;
};

// Returns the files that the user wrote, or none if the option is absent or wrong.
std::vector<Path> read_files(ddprun::Options& options) {
  auto files =
      options.get<std::vector<Path>>("file", {}, "a UTF-8 text, or several to join; without it one is generated");
  const bool named = std::ranges::none_of(files, &Path::empty);
  if (options.has("file") && !named) options.reject("file", "expected a text file or a list of them");
  return files;
}

std::u32string read_text(const Path& path) {
  const auto refuse = [&](const std::string& flaw) {
    throw ddprun::UserError(path.string() + ": " + flaw + "; expected a UTF-8 text file");
  };
  if (std::filesystem::is_directory(path)) refuse("is a folder");
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) refuse("is not a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("cannot be opened: " + std::string(std::strerror(errno)));
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) refuse("cannot be read: " + std::string(std::strerror(errno)));
  auto text = ddprun::text::decode_utf8(bytes, path.string());
  if (text.empty()) refuse("the file is empty");
  return text;
}

class Text final : public ddprun::Dataset {
 public:
  explicit Text(ddprun::Options& options) : files_(read_files(options)) {
    context_ = options.get<int64_t>("context", 128, "characters per sample", {.min = 1, .max = 1 << 20});
    fractions_[1] = options.get<double>("val_fraction", 0.1, "share of the text used as val, after the training part",
                                        {.min = 0, .max = 0.9});
    fractions_[2] =
        options.get<double>("test_fraction", 0.1, "share of the text used as test, at its end", {.min = 0, .max = 0.9});
    seed_ = options.get<int64_t>("seed", 1, "of the generated text: another seed gives another", {.min = 0});
    size_ = options.get<int64_t>("size", 300'000,
                                 "characters of the generated text; no model's perplexity on it is below 1.504",
                                 {.min = 1, .max = 100'000'000});
    if (fractions_[1] + fractions_[2] > 0.95)
      options.reject("val_fraction", "expected no more than 0.95 together with test_fraction: training has the rest");
    for (const auto* name : {"seed", "size"}) {
      if (!files_.empty() && options.has(name))
        options.reject(name, "applies only to a generated text; there is a file");
    }
  }

  void prepare(const ddprun::Progress&) override { start(); }  // finds mistakes in the files before workers start
  bool is_prepared() const override { return true; }

  void start() override {
    const auto text = files_.empty() ? draw() : read();
    cut(static_cast<int64_t>(text.size()));
    const auto training = static_cast<size_t>(part(Split::kTrain).size);
    const std::u32string_view all = text;
    const ddprun::text::Alphabet alphabet(all.substr(0, training), all.substr(training));
    classes_.resize(text.size());
    std::ranges::transform(text, classes_.begin(), [&](char32_t character) { return alphabet.class_of(character); });
    names_ = alphabet.names();
  }

  ddprun::DataSpec spec() const override {
    return {.sample_shape = {context_}, .classes = static_cast<int64_t>(names_.size()), .class_names = names_};
  }

  ddprun::DataAccount account() const override {
    ddprun::DataAccount account{.unit = "character"};
    ddprun::LeftAlone rest{.reason = "behind the last window of their split"};
    ddprun::DataDigest digest;
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      const int64_t used = part(split).size > 0 ? size(split) * context_ + 1 : 0;
      account.used += used;
      rest.count += part(split).size - used;
      digest.add(size(split));
    }
    if (rest.count > 0) account.left_alone.push_back(std::move(rest));
    for (const auto& name : names_) digest.add(name);
    digest.add_all(classes_.data(), classes_.size() * sizeof classes_.front());
    account.digest = digest.hex();
    return account;
  }

  // The last character of a part is only a target.
  int64_t size(Split split) const override { return std::max<int64_t>(part(split).size - 1, 0) / context_; }

  ddprun::Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto* first = classes_.data() + part(split).begin;
    return ddprun::text::gather_windows(indices, context_, size(split), [&](int64_t index, std::span<int64_t> out) {
      std::copy_n(first + index * context_, out.size(), out.begin());
    });
  }

 private:
  const Part& part(Split split) const { return parts_[static_cast<size_t>(split)]; }

  std::u32string read() const {
    std::u32string text;
    for (const auto& file : files_) text += read_text(file);
    return text;
  }

  std::u32string draw() const {
    ddprun::RandomStream random(static_cast<uint64_t>(seed_), kStream);
    std::string text;
    while (static_cast<int64_t>(text.size()) < size_) ddprun::text::append_line(text, random);
    return {text.begin(), text.begin() + size_};
  }

  // Splits the text into train, val and test, in this order.
  void cut(int64_t characters) {
    for (size_t i : {1, 2})
      parts_[i].size = static_cast<int64_t>(std::floor(static_cast<double>(characters) * fractions_[i]));
    parts_[0].size = characters - parts_[1].size - parts_[2].size;
    parts_[1].begin = parts_[0].size;
    parts_[2].begin = parts_[1].begin + parts_[1].size;
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      const bool wanted = split == Split::kTrain || fractions_[static_cast<size_t>(split)] > 0;
      if (wanted && size(split) == 0) refuse(split, characters);
    }
  }

  [[noreturn]] void refuse(Split split, int64_t characters) const {
    const std::string name = split_name(split);
    std::string place = files_.empty() ? "dataset: the generated text" : files_.front().string();
    if (files_.size() > 1) place += " and " + std::to_string(files_.size() - 1) + " more";
    throw ddprun::UserError(place + ": the split " + name + " has " + std::to_string(part(split).size) + " of its " +
                            std::to_string(characters) + " characters, expected at least " +
                            std::to_string(context_ + 1) + ": a window of dataset.context=" + std::to_string(context_) +
                            " and one more; take a longer text or a smaller context" +
                            (split == Split::kTrain ? "" : ", or set dataset." + name + "_fraction=0"));
  }

  std::vector<Path> files_;
  int64_t context_ = 0, seed_ = 0, size_ = 0;
  std::array<double, 3> fractions_{};  // by Split; train has the rest
  std::array<Part, 3> parts_;          // by Split
  std::vector<int32_t> classes_;       // of all characters
  std::vector<std::string> names_;
};

}  // namespace

DDPRUN_DATASET(Text, "text", "next characters of your own text, or of a generated one: no files needed")

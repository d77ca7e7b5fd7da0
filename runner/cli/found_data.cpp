// SPDX-License-Identifier: MIT
#include "cli/found_data.h"

#include "picture_files.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <map>
#include <optional>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kDeepest = 4;         // folders below the one that is looked at
constexpr size_t kPictures = 200;   // looked at for their size
constexpr size_t kMostFiles = 1e7;  // listed; more are no single data set

const std::set<std::string> kArrayEndings{".npy", ".safetensors"}, kTextEndings{".txt", ".text", ".md"};
constexpr const char *kShardEnding = ".tar", *kTokensEnding = ".bin";
constexpr std::string_view kBetweenWords = "_-. /";

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string count_text(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// The files below a folder by their kind, each list sorted.
struct Listing {
  fs::path folder;
  std::vector<fs::path> pictures, arrays, shards, tokens, texts, tables, others;

  bool has(const fs::path& below) const {
    std::error_code error;
    return fs::exists(folder / below, error);
  }
};

// Returns whether FILE.json says how to read the file.
bool is_explained(const fs::path& file) {
  std::error_code error;
  return fs::exists(fs::path(file) += ".json", error);
}

void take(Listing& listing, const fs::path& file, int depth) {
  const auto ending = lower(file.extension().string());
  std::error_code error;
  const bool top = depth == 0 && fs::is_regular_file(file, error);  // to read a pipe would be to wait
  auto& list = is_picture_name(file.filename().string())       ? listing.pictures
               : kArrayEndings.contains(ending)                ? listing.arrays
               : ending == kShardEnding                        ? listing.shards
               : ending == kTokensEnding && is_explained(file) ? listing.tokens
               : top && kTextEndings.contains(ending)          ? listing.texts
               : top && ending == ".csv"                       ? listing.tables
               : is_picture(file)                              ? listing.pictures
                                                               : listing.others;
  list.push_back(file);
}

Listing list_files(const fs::path& folder) {
  Listing listing{.folder = folder};
  size_t count = 0;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const bool hidden = is_litter(at->path().filename().string());
    if (at->is_directory(ignored)) {
      if (hidden || at.depth() >= kDeepest) at.disable_recursion_pending();
    } else if (!hidden && ++count <= kMostFiles) {
      take(listing, at->path(), at.depth());
    }
  }
  if (error) throw UserError(folder.string() + ": cannot be listed: " + error.message());
  for (auto* list : {&listing.pictures, &listing.arrays, &listing.shards, &listing.tokens, &listing.texts,
                     &listing.tables, &listing.others})
    std::ranges::sort(*list);
  return listing;
}

Value text_value(const fs::path& path) { return Value::scalar(path.string(), {}, /*quoted=*/true); }

Value text_values(const std::vector<fs::path>& paths) {
  auto list = Value::list();
  for (const auto& path : paths) list.items().push_back(text_value(path));
  return list;
}

FoundData named(const std::string& plugin, const fs::path& root) {
  FoundData found{.plugin = plugin, .options = Value::map()};
  found.options.set("root", text_value(root));
  found.options.set("download", Value::scalar("false"));
  return found;
}

// MNIST's and CIFAR's files have names of their own.
std::optional<FoundData> known_set(const Listing& listing) {
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return listing.has(name); });
  };
  const std::string images = "train-images-idx3-ubyte";
  for (const auto* below : {"", "raw", "MNIST/raw", "FashionMNIST/raw"}) {
    if (!listing.has(fs::path(below) / images) && !listing.has(fs::path(below) / (images + ".gz"))) continue;
    const bool clothes = lower((listing.folder / below).string()).find("fashion") != std::string::npos;
    return named(clothes ? "fashion_mnist" : "mnist", listing.folder);
  }
  if (any({"cifar-10-batches-bin", "cifar-10-batches-py", "data_batch_1.bin", "data_batch_1",
           "cifar-10-binary.tar.gz"}))
    return named("cifar10", listing.folder);
  if (any({"cifar-100-binary", "cifar-100-python", "fine_label_names.txt", "cifar-100-binary.tar.gz"}))
    return named("cifar100", listing.folder);
  return std::nullopt;
}

// Pictures in folders of their class.

std::string example_of(const Listing& listing) {
  return listing.pictures.front().lexically_relative(listing.folder).string();
}

constexpr const char* kPictureLayouts =
    "expected FOLDER/<class>/<picture>, FOLDER/train/<class>/<picture> with val and test likewise, or a list "
    "labels.csv beside the pictures, with the header file,label";

bool is_list_of_pictures(const fs::path& csv) {
  std::string line;
  std::ifstream stream(csv);
  std::getline(stream, line);
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  return lower(line).starts_with("file,label");
}

std::vector<fs::path> spread(const std::vector<fs::path>& files) {
  std::vector<fs::path> some;
  const auto step = std::max<size_t>(1, files.size() / kPictures);
  for (size_t i = 0; i < files.size(); i += step) some.push_back(files[i]);
  return some;
}

FoundData pictures(const Listing& listing) {
  FoundData found{.plugin = "image_folder", .options = Value::map(), .pictures = spread(listing.pictures)};
  found.options.set("root", text_value(listing.folder));
  const auto csv = std::ranges::find_if(listing.tables, is_list_of_pictures);
  if (csv != listing.tables.end()) {
    found.options.set("csv", text_value(*csv));
    return found;
  }
  const auto in_folders =
      std::ranges::any_of(listing.pictures, [&](const fs::path& file) { return file.parent_path() != listing.folder; });
  if (!in_folders)
    throw UserError(listing.folder.string() + ": " + count_text(listing.pictures.size(), "picture") +
                    " without class folders, such as " + example_of(listing) + "; " + kPictureLayouts);
  return found;
}

// Files of samples, each of one split: x_train.npy, val.safetensors, train-000000.tar, test/tokens.bin.

// Returns the words of a name: "x", "train" for X_train.
Words words_of(const std::string& name) {
  Words words(1);
  for (const char c : lower(name)) {
    if (kBetweenWords.find(c) != kBetweenWords.npos) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// Returns the split that the name has, or its folder's; train if they have none.
std::string split_of(const Listing& listing, const fs::path& file) {
  for (const auto& word : words_of(file.lexically_relative(listing.folder).replace_extension().string()))
    if (auto split = split_called(word)) return *split;
  return "train";
}

// Returns whether it holds inputs (0) or targets (1); nothing if the name does not tell.
std::optional<size_t> role_of(const fs::path& file) {
  static const std::array<std::set<std::string>, 2> kRoles{
      std::set<std::string>{"input", "inputs", "x", "data", "images", "features"},
      std::set<std::string>{"target", "targets", "y", "label", "labels", "classes"}};
  for (size_t role : {0, 1})
    for (const auto& word : words_of(file.stem().string()))
      if (kRoles[role].contains(word)) return role;
  return std::nullopt;
}

[[noreturn]] void refuse_arrays(const Listing& listing, const std::string& what) {
  std::string names;
  constexpr size_t kMostNames = 8;
  for (size_t i = 0; i < std::min(kMostNames, listing.arrays.size()); ++i)
    names += (i == 0 ? "" : ", ") + listing.arrays[i].lexically_relative(listing.folder).string();
  throw UserError(listing.folder.string() + ": " + what + ": found " + names +
                  (listing.arrays.size() > kMostNames ? " ..." : "") +
                  "; expected train.safetensors, or input.npy and target.npy (x.npy and y.npy), and for splits "
                  "val.safetensors, val_input.npy, val_target.npy, and test likewise");
}

// The files of a split: one .safetensors file, or inputs and targets.
using SplitFiles = std::map<std::string, std::array<fs::path, 2>>;

SplitFiles split_files(const Listing& listing) {
  SplitFiles splits;
  for (const auto& file : listing.arrays) {
    const bool pair = file.extension() == ".npy";
    const auto role = pair ? role_of(file) : 0;
    if (!role) refuse_arrays(listing, file.filename().string() + " does not say whether it holds inputs or targets");
    auto& place = splits[split_of(listing, file)][*role];
    if (!place.empty())
      refuse_arrays(listing, place.filename().string() + " and " + file.filename().string() + " seem to be the same");
    place = file;
  }
  for (const auto& [split, files] : splits) {
    if (files[0].extension() == ".safetensors" && files[1].empty()) continue;
    if (files[0].empty() || files[1].empty()) refuse_arrays(listing, split + " lacks its inputs or its targets");
    if (files[0].extension() != files[1].extension()) refuse_arrays(listing, "two ways to save " + split);
  }
  if (!splits.contains("train")) refuse_arrays(listing, "no training samples");
  return splits;
}

FoundData arrays(const Listing& listing) {
  FoundData found{.plugin = "tensors", .options = Value::map()};
  for (const auto& [split, files] : split_files(listing)) {
    std::vector<fs::path> named(files.begin(), files.end());
    std::erase_if(named, &fs::path::empty);
    found.options.set(split, text_values(named));
  }
  return found;
}

FoundData texts(const std::vector<fs::path>& files) {
  FoundData found{.plugin = "text", .options = Value::map()};
  found.options.set("file", text_values(files));
  return found;
}

// Returns train-00000*.tar for train-000000.tar and its like. Throws UserError if no pattern names these files alone.
fs::path pattern_of(const std::vector<fs::path>& files, const std::vector<fs::path>& all) {
  if (files.size() == 1) return files.front();
  const auto first = files.front().string(), last = files.back().string();
  const auto common = first.substr(0, static_cast<size_t>(std::ranges::mismatch(first, last).in1 - first.begin()));
  const fs::path pattern = common + "*" + kShardEnding;
  const auto named = std::ranges::count_if(all, [&](const fs::path& file) {
    return file.parent_path() == pattern.parent_path() && file.string().starts_with(common);
  });
  if (named == std::ssize(files)) return pattern;
  throw UserError("no pattern names " + first + ", " + last +
                  " and the others of their split alone; expected names such as " +
                  "train-000000.tar and val-000000.tar in one folder, or folders train and val");
}

FoundData files_of_splits(const std::string& plugin, const Listing& listing, const std::vector<fs::path>& files) {
  std::map<std::string, std::vector<fs::path>> splits;
  for (const auto& file : files) splits[split_of(listing, file)].push_back(file);
  if (!splits.contains("train"))
    throw UserError(files.front().string() + ": no file is of train, and this one is of " + splits.begin()->first +
                    "; expected train" + files.front().extension().string() + " or train-000000" +
                    files.front().extension().string());
  FoundData found{.plugin = plugin, .options = Value::map()};
  for (const auto* split : {"train", "val", "test"}) {
    if (const auto of_split = splits.find(split); of_split != splits.end())
      found.options.set(
          split, plugin == "shards" ? text_value(pattern_of(of_split->second, files)) : text_values(of_split->second));
  }
  return found;
}

constexpr const char* kKnown =
    "expected pictures (.png, .jpg, .webp, .bmp, .ppm) in a folder for each class or in shards (.tar), arrays (.npy, "
    ".safetensors), the files of MNIST or CIFAR, a text (.txt), or tokens (.bin with .bin.json)";

// Throws UserError if there are data of two kinds.
void require_one_kind(const Listing& listing) {
  std::vector<std::string> kinds;
  const auto count = [&](const std::vector<fs::path>& files, const char* what) {
    if (!files.empty())
      kinds.push_back(count_text(files.size(), what) + ", such as " +
                      files.front().lexically_relative(listing.folder).string());
  };
  count(listing.pictures, "picture");
  count(listing.arrays, "array");
  count(listing.shards, "shard");
  count(listing.tokens, "token file");
  if (kinds.size() > 1)
    throw UserError(listing.folder.string() + ": a mixture of " + kinds[0] + ", and " + kinds[1] +
                    "; expected one kind of data; move the others to a folder of their own");
}

FoundData found_in(const Listing& listing) {
  require_one_kind(listing);
  if (!listing.pictures.empty()) return pictures(listing);
  if (!listing.arrays.empty()) return arrays(listing);
  if (!listing.shards.empty()) return files_of_splits("shards", listing, listing.shards);
  if (!listing.tokens.empty()) return files_of_splits("tokens", listing, listing.tokens);
  if (!listing.texts.empty()) return texts(listing.texts);
  if (listing.others.empty() && listing.tables.empty())
    throw UserError(listing.folder.string() + ": there are no files; " + kKnown);
  const auto& other = listing.tables.empty() ? listing.others.front() : listing.tables.front();
  const auto count = listing.others.size() + listing.tables.size();
  throw UserError(listing.folder.string() + ": " + count_text(count, "file") +
                  " of kinds that no dataset reads, such as " + other.lexically_relative(listing.folder).string() +
                  "; " + kKnown +
                  (listing.tables.empty() ? "" : "; docs/experiments.md tells how to bring a table of numbers"));
}

}  // namespace

FoundData find_data(const fs::path& place) {
  std::error_code error;
  const auto path = fs::absolute(place).lexically_normal();
  if (fs::is_directory(path, error)) {
    const auto listing = list_files(path.has_filename() ? path : path.parent_path());
    const auto known = known_set(listing);
    return known ? *known : found_in(listing);
  }
  if (!fs::is_regular_file(path, error)) throw UserError(place.string() + ": there is no such folder or file");
  Listing listing{.folder = path.parent_path()};
  take(listing, path, 0);
  return found_in(listing);
}

}  // namespace ddprun

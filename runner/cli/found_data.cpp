// SPDX-License-Identifier: MIT
#include "cli/found_data.h"

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

const std::set<std::string> kPictureEndings{".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"},
    kArrayEndings{".npy", ".safetensors"}, kTextEndings{".txt", ".text", ".md"};
const std::map<std::string, std::string> kSplits{{"train", "train"}, {"training", "train"}, {"val", "val"},
                                                 {"valid", "val"},   {"validation", "val"}, {"dev", "val"},
                                                 {"test", "test"},   {"testing", "test"}};

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
  std::vector<fs::path> pictures, arrays, texts, tables, others;

  bool has(const fs::path& below) const {
    std::error_code error;
    return fs::exists(folder / below, error);
  }
};

void take(Listing& listing, const fs::path& file, int depth) {
  const auto ending = lower(file.extension().string());
  const bool top = depth == 0;
  auto& list = kPictureEndings.contains(ending)       ? listing.pictures
               : kArrayEndings.contains(ending)       ? listing.arrays
               : top && kTextEndings.contains(ending) ? listing.texts
               : top && ending == ".csv"              ? listing.tables
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
    const bool hidden = at->path().filename().string().starts_with('.');
    if (at->is_directory(ignored)) {
      if (hidden || at.depth() >= kDeepest) at.disable_recursion_pending();
    } else if (!hidden && ++count <= kMostFiles) {
      take(listing, at->path(), at.depth());
    }
  }
  if (error) throw UserError(folder.string() + ": cannot be listed: " + error.message());
  for (auto* list : {&listing.pictures, &listing.arrays, &listing.texts, &listing.tables, &listing.others})
    std::ranges::sort(*list);
  return listing;
}

Value text_value(const fs::path& path) { return Value::scalar(path.string(), {}, /*quoted=*/true); }

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

// Returns how many folders lie between the folder and its pictures: 1 for FOLDER/<class>/<picture>. Throws UserError if
// not all are equally deep.
long depth_of_pictures(const Listing& listing) {
  std::map<long, fs::path> depths;
  for (const auto& file : listing.pictures) {
    const auto below = file.lexically_relative(listing.folder);
    depths.try_emplace(std::distance(below.begin(), below.end()) - 1, below);
  }
  if (depths.size() == 1) return depths.begin()->first;
  throw UserError(listing.folder.string() + ": pictures lie at different depths, such as " +
                  depths.begin()->second.string() + " and " + depths.rbegin()->second.string() + "; " +
                  kPictureLayouts);
}

std::set<std::string> top_folders(const Listing& listing) {
  std::set<std::string> names;
  for (const auto& file : listing.pictures) names.insert(file.lexically_relative(listing.folder).begin()->string());
  return names;
}

// Throws UserError unless the pictures lie in FOLDER/<split>/<class>, with the names of the splits that are read.
void require_splits(const Listing& listing) {
  const auto folders = top_folders(listing);
  std::string renamings;
  for (const auto& name : folders) {
    const auto split = kSplits.find(lower(name));
    if (split == kSplits.end()) {
      const auto deeper = (listing.folder / name).string();
      throw UserError(listing.folder.string() + ": pictures lie one folder too deep, such as " + example_of(listing) +
                      "; " + kPictureLayouts + "; try ddprun init " + deeper);
    }
    if (name != split->second) renamings += (renamings.empty() ? "" : ", ") + name + " to " + split->second;
  }
  if (!renamings.empty())
    throw UserError(listing.folder.string() + ": the splits are called train, val and test; rename " + renamings);
  if (!folders.contains("train"))
    throw UserError(listing.folder.string() + ": has no folder train beside " + *folders.begin() + "; " +
                    kPictureLayouts);
}

bool is_list_of_pictures(const fs::path& csv) {
  std::string line;
  std::ifstream stream(csv);
  std::getline(stream, line);
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  return line.starts_with("file,label");
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
  const auto depth = depth_of_pictures(listing);
  if (depth == 0) {
    throw UserError(listing.folder.string() + ": " + count_text(listing.pictures.size(), "picture") +
                    " without class folders, such as " + example_of(listing) + "; " + kPictureLayouts);
  }
  if (depth > 2)
    throw UserError(listing.folder.string() + ": pictures lie " + std::to_string(depth) + " folders deep, such as " +
                    example_of(listing) + "; " + kPictureLayouts);
  if (depth == 2) require_splits(listing);
  return found;
}

// Arrays.

// Returns the words of a file's name: "x", "train" for X_train.npy.
Words words_of(const fs::path& file) {
  Words words(1);
  for (const char c : lower(file.stem().string())) {
    if (c == '_' || c == '-' || c == '.' || c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// Returns the split that the name has; train if it has none.
std::string split_of(const fs::path& file) {
  for (const auto& word : words_of(file))
    if (const auto split = kSplits.find(word); split != kSplits.end()) return split->second;
  return "train";
}

// Returns whether it holds inputs (0) or targets (1); nothing if the name does not tell.
std::optional<size_t> role_of(const fs::path& file) {
  static const std::array<std::set<std::string>, 2> kRoles{
      std::set<std::string>{"input", "inputs", "x", "data", "images", "features"},
      std::set<std::string>{"target", "targets", "y", "label", "labels", "classes"}};
  for (size_t role : {0, 1})
    for (const auto& word : words_of(file))
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
    auto& place = splits[split_of(file)][*role];
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
    auto list = Value::list();
    for (const auto& file : files)
      if (!file.empty()) list.items().push_back(text_value(file));
    found.options.set(split, std::move(list));
  }
  return found;
}

FoundData texts(const std::vector<fs::path>& files) {
  auto list = Value::list();
  for (const auto& file : files) list.items().push_back(text_value(file));
  FoundData found{.plugin = "text", .options = Value::map()};
  found.options.set("file", std::move(list));
  return found;
}

constexpr const char* kKnown =
    "expected pictures (.png, .jpg) in a folder for each class, arrays (.npy, .safetensors), the files of MNIST or "
    "CIFAR, or a text (.txt)";

FoundData find_in_folder(const fs::path& folder) {
  const auto listing = list_files(folder);
  if (auto known = known_set(listing)) return *known;
  if (!listing.pictures.empty() && !listing.arrays.empty()) {
    throw UserError(folder.string() + ": a mixture of " + count_text(listing.pictures.size(), "picture") +
                    ", such as " + example_of(listing) + ", and " + count_text(listing.arrays.size(), "array") +
                    ", such as " + listing.arrays.front().lexically_relative(folder).string() +
                    "; expected one kind of data; move the others to a folder of their own");
  }
  if (!listing.pictures.empty()) return pictures(listing);
  if (!listing.arrays.empty()) return arrays(listing);
  if (!listing.texts.empty()) return texts(listing.texts);
  if (listing.others.empty() && listing.tables.empty())
    throw UserError(folder.string() + ": there are no files; " + kKnown);
  const auto& other = listing.tables.empty() ? listing.others.front() : listing.tables.front();
  const auto count = listing.others.size() + listing.tables.size();
  throw UserError(folder.string() + ": " + count_text(count, "file") + " of kinds that no dataset reads, such as " +
                  other.lexically_relative(folder).string() + "; " + kKnown +
                  (listing.tables.empty() ? "" : "; docs/experiments.md tells how to bring a table of numbers"));
}

}  // namespace

FoundData find_data(const fs::path& place) {
  std::error_code error;
  const auto path = fs::absolute(place).lexically_normal();
  if (fs::is_directory(path, error)) return find_in_folder(path.has_filename() ? path : path.parent_path());
  if (!fs::is_regular_file(path, error)) throw UserError(place.string() + ": there is no such folder or file");
  if (kArrayEndings.contains(lower(path.extension().string())))
    return arrays({.folder = path.parent_path(), .arrays = {path}});
  if (kTextEndings.contains(lower(path.extension().string()))) return texts({path});
  throw UserError(place.string() + ": a file of a kind that no dataset reads; name a folder, or a text (.txt)");
}

}  // namespace ddprun

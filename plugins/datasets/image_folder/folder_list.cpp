// SPDX-License-Identifier: MIT
#include "folder_list.h"

#include "picture_files.h"
#include "shown_text.h"

#include <ddprun/error.h>

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>

namespace ddprun::images {
namespace {

using Path = std::filesystem::path;
using Names = std::vector<std::string>;

[[noreturn]] void refuse(const Path& path, const std::string& flaw) {
  throw UserError(to_utf8(path.string()) + ": " + flaw);
}

bool is_folder(const Path& path) {
  std::error_code ignored;  // what cannot be read does not count as a folder
  return std::filesystem::is_directory(path, ignored);
}

// What lies in a folder, each list sorted.
struct Content {
  Names folders, files;
};

Content content_of(const Path& folder) {
  std::error_code error;
  Content content;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    (at->is_directory(ignored) ? content.folders : content.files).push_back(at->path().filename().string());
  }
  if (error) refuse(folder, "cannot be listed: " + error.message());
  std::ranges::sort(content.folders);
  std::ranges::sort(content.files);
  return content;
}

// Returns the folders that are not litter.
Names folders_in(const Path& folder) {
  auto names = content_of(folder).folders;
  std::erase_if(names, [](const std::string& name) { return is_litter(name); });
  return names;
}

// Returns why a file that is no picture is left alone.
std::string reason_of(const Path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return "links that lead nowhere";
  if (!std::filesystem::is_regular_file(file, error)) return "pipes, sockets or devices";
  const auto ending = ending_of(file.filename().string());
  return ending.empty() ? "without an ending" : shown(to_utf8(ending));
}

// Goes through the files below a folder, links to folders too, and counts those that nobody takes.
class Walk {
 public:
  Walk(Path root, DataAccount& account) : root_(std::move(root)), account_(account) {}

  // Calls take(path) for each file below the folder that is not litter, those of a folder first. What it returns is the
  // reason to leave the file alone; empty if it has taken it.
  using Take = std::function<std::string(const Path&)>;
  void files(const Path& folder, const Take& take) {
    above_.clear();
    auto path = root_;
    for (const auto& name : folder.lexically_relative(root_)) {
      if (name == ".") break;
      above_.push_back(identity_of(path));
      path /= name;
    }
    go_through(folder, take);
  }

  // Leaves all files below a folder alone.
  void leave_all(const Path& folder, const std::string& reason) {
    files(folder, [&](const Path&) { return reason; });
  }

  // Leaves the files of a folder alone that has folders of classes, or of splits.
  void leave_files(const Path& folder) {
    for (const auto& name : content_of(folder).files) {
      const auto file = folder / name;
      const auto reason = is_litter(name)    ? kLitter
                          : is_picture(file) ? "pictures outside a class folder"
                                             : reason_of(file);
      leave(account_, reason, shown_path(file));
    }
    for (const auto& name : content_of(folder).folders)
      if (is_litter(name)) leave_all(folder / name, kLitter);
  }

 private:
  static inline const std::string kLitter = "hidden or of the system";
  using Identity = std::pair<dev_t, ino_t>;

  void go_through(const Path& folder, const Take& take) {
    const auto here = identity_of(folder);
    if (std::ranges::find(above_, here) != above_.end())
      return leave(account_, "links to a folder above them", shown_path(folder));
    above_.push_back(here);
    const auto content = content_of(folder);
    for (const auto& name : content.files) {
      const auto reason = is_litter(name) ? kLitter : take(folder / name);
      if (!reason.empty()) leave(account_, reason, shown_path(folder / name));
    }
    const Take leave_it = [](const Path&) { return kLitter; };
    for (const auto& name : content.folders) go_through(folder / name, is_litter(name) ? leave_it : take);
    above_.pop_back();
  }

  static Identity identity_of(const Path& folder) {
    struct stat found {};
    if (::stat(folder.c_str(), &found) != 0)
      refuse(folder, "cannot be read: " + std::generic_category().message(errno));
    return {found.st_dev, found.st_ino};
  }

  std::string shown_path(const Path& path) const { return shown(to_utf8(path.lexically_relative(root_).string())); }

  Path root_;
  DataAccount& account_;
  std::vector<Identity> above_;  // the folders that the one at hand lies in
};

// The folders of the splits below a root.
struct SplitFolders {
  std::map<std::string, std::string> names;  // of folders, by split; empty where the root has classes
  Names others;                              // beside them
};

bool has_folders(const Path& folder) { return !folders_in(folder).empty(); }

// Throws UserError for folders of the root that a user takes for splits, and that would be read as classes:
// train_images beside val_images.
void require_no_unread_splits(const Path& root, const Names& folders) {
  std::map<std::string, std::string> mentioned;
  size_t count = 0;
  bool deeper = false;
  for (const auto& name : folders) {
    const auto split = split_mentioned(name);
    if (!split) continue;
    mentioned.emplace(*split, name);
    deeper = deeper || has_folders(root / name);
    ++count;
  }
  if (!mentioned.contains("train") || mentioned.size() < 2 || (!deeper && count < folders.size())) return;
  std::string names;
  for (const auto& [split, name] : mentioned) names += (names.empty() ? "" : ", ") + name;
  refuse(root, names + " seem to be splits, and would be read as classes; rename them to train, val and test");
}

// Distinguishes folders of splits from classes of the same names, such as train beside bus: folders of splits have
// folders in them, or are several.
SplitFolders find_splits(const Path& root) {
  SplitFolders found;
  std::map<std::string, Names> called;
  const auto folders = folders_in(root);
  bool deeper = false;
  for (const auto& name : folders) {
    const auto split = split_called(name);
    if (!split) {
      found.others.push_back(name);
      continue;
    }
    deeper = deeper || has_folders(root / name);
    called[*split].push_back(name);
  }
  const bool are_splits = !called.empty() && (deeper || called.size() > 1 || found.others.empty());
  if (!are_splits) {
    require_no_unread_splits(root, folders);
    return {};
  }
  if (!called.contains("train"))
    refuse(root, "has no folder train beside " + called.begin()->second.front() + ", which seems to be a split");
  for (const auto& [split, names] : called) {
    if (names.size() > 1) refuse(root, names[0] + " and " + names[1] + " are both the split " + split + "; keep one");
    found.names[split] = names.front();
  }
  return found;
}

// Reads all that lies below a root into a list.
class FolderReader {
 public:
  explicit FolderReader(const Path& root) : root_(root), walk_(root, list_.account) {
    list_.place = root.string();
    list_.root = root;
  }

  SampleList read() {
    if (!is_folder(root_))
      refuse(root_, "is not a folder; name one that has train/<class>/<picture> or <class>/<picture>");
    const auto splits = find_splits(root_);
    const bool has_splits = !splits.names.empty();
    const auto train = has_splits ? root_ / splits.names.at("train") : root_;
    list_.class_names = classes_of(train);
    require_fit_names(train);
    read_split(train, Split::kTrain);
    for (const auto split : {Split::kVal, Split::kTest}) {
      const auto name = splits.names.find(split_name(split));
      if (name != splits.names.end()) read_split(root_ / name->second, split);
    }
    if (has_splits) walk_.leave_files(root_);
    for (const auto& name : splits.others) leave_folder(name, splits);
    return std::move(list_);
  }

 private:
  static Names classes_of(const Path& folder) {
    auto names = folders_in(folder);
    if (names.empty())
      refuse(folder, std::string("has no class folders, expected <class>/<picture>, of ") + kReadPictures);
    return names;
  }

  void require_fit_names(const Path& train) const {
    const auto& names = list_.class_names;
    for (const auto& name : names)
      if (const auto flaw = name_flaw(name); !flaw.empty())
        refuse(shown(to_utf8((train / name).string())), "the class's name " + flaw + "; rename the folder");
    if (const auto alike = find_alike(names))
      refuse(train, "the classes \"" + alike->first + "\" and \"" + alike->second + "\" " + kAlike);
    if (names.size() == 1 && folders_in(train / names[0]).size() > 1 && !has_pictures(train / names[0]))
      refuse(train, "has one folder, " + names[0] + ", with folders in it; if these are the classes, name " +
                        (train / names[0]).string());
  }

  static bool has_pictures(const Path& folder) {
    return std::ranges::any_of(content_of(folder).files,
                               [&](const std::string& name) { return !is_litter(name) && is_picture(folder / name); });
  }

  void require_classes_of_train(const Path& folder, const Names& found) const {
    for (const auto& name : found) {
      if (std::ranges::binary_search(list_.class_names, name)) continue;
      const auto alike =
          std::ranges::find_if(list_.class_names, [&](const std::string& other) { return are_alike(name, other); });
      refuse(folder / name,
             "a class that train does not have" +
                 (alike == list_.class_names.end() ? "" : "; its name and \"" + *alike + "\" " + kAlike));
    }
    for (const auto& name : list_.class_names)
      if (!std::ranges::binary_search(found, name)) refuse(folder, "lacks the class " + name + ", which train has");
  }

  void read_split(const Path& folder, Split split) {
    if (split != Split::kTrain) require_classes_of_train(folder, classes_of(folder));
    walk_.leave_files(folder);
    auto& samples = list_.of(split);
    for (size_t label = 0; label < list_.class_names.size(); ++label) {
      const auto place = folder / list_.class_names[label];
      const auto before = samples.size();
      walk_.files(place, [&](const Path& file) {
        if (!is_picture(file)) return reason_of(file);
        samples.push_back({file.string(), static_cast<int64_t>(label)});
        return std::string();
      });
      if (samples.size() == before) refuse(place, std::string("has no picture (") + kReadPictures + ")");
    }
  }

  // Leaves a folder beside the splits alone, but for one that a user may take for a split.
  void leave_folder(const std::string& name, const SplitFolders& splits) {
    const auto folders = folders_in(root_ / name);
    const bool has_classes = std::ranges::any_of(
        folders, [&](const std::string& one) { return std::ranges::binary_search(list_.class_names, one); });
    const auto split = split_mentioned(name);
    if (has_classes || (split && !splits.names.contains(*split)))
      refuse(root_ / name,
             "is no split that is read, and seems to be one; the splits are called train, val and test: "
             "rename it, or move it elsewhere");
    walk_.leave_all(root_ / name, "in folders that are no splits");
  }

  static constexpr auto kAlike =
      "differ in no more than blanks, case or zeros in front; rename one, or put their pictures together";

  Path root_;
  SampleList list_;
  Walk walk_;
};

}  // namespace

SampleList list_folders(const Path& root) { return FolderReader(root).read(); }

void count_unlisted(const Path& root, const SampleList& list, DataAccount& account) {
  std::unordered_set<std::string> listed;
  for (const auto& samples : list.splits)
    for (const auto& sample : samples) listed.insert(sample.picture.file);
  for (const auto& sample : list.removed) listed.insert(sample.picture.file);
  const auto folder = root.lexically_normal();
  Walk(folder, account).files(folder, [&](const Path& file) {
    if (listed.contains(file.string())) return std::string();
    return is_picture(file) ? "pictures that the table does not name" : reason_of(file);
  });
}

}  // namespace ddprun::images

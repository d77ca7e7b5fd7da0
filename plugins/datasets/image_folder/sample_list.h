// SPDX-License-Identifier: MIT
// The pictures of a dataset: files, classes and splits.
#pragma once

#include "encoded_picture.h"
#include "image_file.h"

#include <ddprun/batch.h>
#include <ddprun/dataset.h>
#include <ddprun/folds.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::images {

struct Sample {
  Picture picture;
  int64_t label = 0;
};
using Samples = std::vector<Sample>;

struct SampleList {
  std::string place;  // the folder or file it was read from; error messages begin with it
  std::vector<std::string> class_names;
  std::array<Samples, 3> splits;    // by Split
  std::filesystem::path root = {};  // the pictures' names in the digest do without it
  DataAccount account = {};         // what lies there and is no sample
  Samples removed = {};             // by remove(); the account has counted them

  Samples& of(Split split) { return splits[static_cast<size_t>(split)]; }
  const Samples& of(Split split) const { return splits[static_cast<size_t>(split)]; }
};

// Returns what makes a class's name unfit for a table, a report or a terminal: "is not UTF-8", "has a control
// character"; empty if nothing does.
std::string name_flaw(const std::string& name);

// Returns whether two names differ by no more than blanks, case, or zeros before a number. Those are ASCII's: of other
// letters each byte counts.
bool are_alike(const std::string& one, const std::string& other);

// Returns the first two such names; they are all different.
std::optional<std::pair<std::string, std::string>> find_alike(const std::vector<std::string>& names);

// Counts what lies there and is part of no sample, with an example of it. Many reasons become one at the end.
void leave(DataAccount& account, const std::string& reason, const std::string& example, int64_t count = 1);

// Returns the SHA-256 of the samples: their splits, names, sizes and labels. Looks at all files, on several threads.
std::string digest_of(const SampleList& list);

// Moves this many random training samples to a split that has none, of each class its share (choose_evenly()); the
// order stays. The same seed moves the same samples. Throws UserError if the count is 0, the split has samples, or
// train would be left empty.
void hold_out(SampleList& list, Split split, int64_t count, uint64_t seed);

// Moves one fold of the training samples to val, which must have none. Throws UserError likewise.
void hold_out(SampleList& list, const Fold& fold, uint64_t seed);

struct Unreadable {
  std::vector<std::string> problems;  // one line each, in the order of the list
  std::array<std::vector<bool>, 3> marks;
};

// Reads the headers of all files on several threads, or decodes all of them. `progress` is called on this thread, with
// the number of files done and in all.
Unreadable find_unreadable(const SampleList& list, const Reading& how, bool decode_all,
                           const std::function<void(int64_t, int64_t)>& progress);

// Remembers in the user's cache what was found, since to decode all pictures takes long, and every worker of a node
// needs the answer that one process has found before. Throws UserError if that cannot be written.
void remember(const SampleList& list, const Reading& how, const Unreadable& found);

// Returns the marks that were remembered of these very files: of the same names, sizes, inodes, and times of change in
// nanoseconds, the kernel's own among them, which nobody can set. Nothing if there are none, or any file is another.
std::optional<Unreadable> recall(const SampleList& list, const Reading& how);

// Returns the first problems and their total number.
std::string text_of(const Unreadable& found);

// Takes them out of the list, and counts them as left alone.
void remove(SampleList& list, const Unreadable& found);

}  // namespace ddprun::images

// SPDX-License-Identifier: MIT
// What a data set in CIFAR's binary format consists of: records of one or two label bytes and 3,072 pixels, planes red,
// green and blue of 32 x 32.
#pragma once

#include "file_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::cifar {

inline constexpr int64_t kSide = 32;
inline constexpr int64_t kPixels = 3 * kSide * kSide;  // bytes of an image

// The same data set as torchvision keeps it: pickles, with the images under "data".
struct PythonFiles {
  std::vector<std::string> train_files;
  std::string test_file, names_file;
};

// One of a record's label bytes, in their order.
struct LabelKind {
  std::string name;  // "fine"
  int64_t classes = 0;
  std::string names_file;                              // a class name a line
  std::string python_key = {}, python_names_key = {};  // of the labels in a pickle, and of their names
};

struct CifarTable {
  remote::FileTable data;  // one archive
  std::string folder;      // of all its members
  std::vector<std::string> train_files;
  std::string test_file;
  int64_t most_records = 0;  // of a file
  std::vector<LabelKind> labels;
  std::vector<double> mean, std;  // of the training pixels, 0 .. 1, for each channel
  PythonFiles python = {};

  int64_t record_bytes() const { return static_cast<int64_t>(labels.size()) + kPixels; }
};

}  // namespace ddprun::cifar

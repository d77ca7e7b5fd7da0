// SPDX-License-Identifier: MIT
// The contents of a data set in CIFAR's binary format: records of one or two label bytes and 3,072 pixels, as red,
// green and blue planes of 32 x 32.
#pragma once

#include <ddprun/download.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::cifar {

inline constexpr int64_t kSide = 32;
inline constexpr int64_t kPixels = 3 * kSide * kSide;  // bytes per image

// The same data set as torchvision stores it: pickles, with the images under "data".
struct PythonFiles {
  std::vector<std::string> train_files;
  std::string test_file, names_file;
};

// One of a record's label bytes; they come in this order.
struct LabelKind {
  std::string name;  // "fine"
  int64_t classes = 0;
  std::string names_file;                              // one class name per line
  std::string python_key = {}, python_names_key = {};  // keys of the labels in a pickle, and of their names
};

struct CifarTable {
  FileTable data;      // one archive
  std::string folder;  // holds all its members
  std::vector<std::string> train_files;
  std::string test_file;
  int64_t most_records = 0;  // per file
  std::vector<LabelKind> labels;
  std::vector<double> mean, std;  // of the training pixels, 0 .. 1, per channel
  PythonFiles python = {};

  int64_t record_bytes() const { return static_cast<int64_t>(labels.size()) + kPixels; }
};

}  // namespace ddprun::cifar

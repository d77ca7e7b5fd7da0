// SPDX-License-Identifier: MIT
// A dictionary pickled by Python 2, as CIFAR's files for Python are: lists of numbers and of texts, and an array of
// bytes. It is searched as a row of operations; nothing in it is ever built or called, and a function's name is a word.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::cifar {

// All methods throw UserError, naming the file, if it is not such a pickle, lacks the key, or has something else there.
class PythonPickle {
 public:
  PythonPickle(std::string place, std::string bytes);

  std::vector<int64_t> numbers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;

  // Returns the rows of a numpy array uint8 [rows, columns]; they live as long as the pickle.
  std::span<const uint8_t> bytes(std::string_view key, size_t columns) const;

  [[noreturn]] void refuse(const std::string& flaw) const;

 private:
  std::string place_, bytes_;
};

}  // namespace ddprun::cifar

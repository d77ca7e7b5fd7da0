// SPDX-License-Identifier: MIT
// A dictionary pickled by Python 2, as in CIFAR's files for Python: its lists of numbers and texts, and its byte
// arrays. Nothing in a pickle is ever called: function names are only read as words.
#pragma once

#include <cstdint>
#include <deque>
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
  enum class Kind { kNumber, kText, kList, kDictionary, kOther };  // kList: tuples too; kOther: made by a function
  struct Value {
    Kind kind = Kind::kOther;
    int64_t number = 0;
    std::string_view text = {};            // points into bytes_; for kOther, the function's module and name
    std::vector<const Value*> items = {};  // keys and values in turn; for kOther, its arguments, then its state
  };

  void read();
  void take(char operation);
  void take_number(char operation);
  void take_container(char operation);
  void make_object();
  std::string_view next(size_t count);
  std::string_view line();
  uint64_t little(size_t bytes);
  Value& push(Value value);
  Value* pop();
  Value& top();
  std::vector<const Value*> from_mark();
  void push_tuple(size_t count);
  const Value& at(std::string_view key, Kind kind) const;

  std::string place_, bytes_;
  size_t position_ = 0;
  std::deque<Value> values_;  // owns all values ever made: others point to them
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;  // stack heights
  std::vector<Value*> memo_;
};

}  // namespace ddprun::cifar

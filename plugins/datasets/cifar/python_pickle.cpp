// SPDX-License-Identifier: MIT
#include "python_pickle.h"

#include <ddprun/error.h>

#include <algorithm>
#include <iterator>

namespace ddprun::cifar {
namespace {

constexpr size_t kMostValues = 4'000'000;
constexpr std::string_view kArray = "multiarray\n_reconstruct";

}  // namespace

PythonPickle::PythonPickle(std::string place, std::string bytes) : place_(std::move(place)), bytes_(std::move(bytes)) {
  read();
}

void PythonPickle::refuse(const std::string& flaw) const { throw UserError(place_ + ": " + flaw); }

// Handles the operations of protocol 2 that dictionaries, lists, numbers, texts and arrays need.
void PythonPickle::read() {
  if (!bytes_.starts_with("\x80\x02"))
    refuse("is not a pickle of Python 2's protocol 2; take the data set's own files");
  position_ = 2;
  for (;;) {
    const char operation = next(1)[0];
    if (operation == '.') break;
    take(operation);
    if (stack_.size() + marks_.size() > kMostValues)
      refuse("holds too many values for this data set; download it again");
  }
  if (stack_.size() != 1 || !marks_.empty() || top().kind != Kind::kDictionary)
    refuse("is a pickle, but not of a dictionary; take the data set's own files");
}

void PythonPickle::take(char operation) {
  switch (operation) {
    case 'q': memo_.resize(std::max<size_t>(memo_.size(), 256)), memo_[little(1)] = &top(); return;
    case 'r': {
      const auto slot = little(4);
      if (slot > kMostValues) refuse("is a damaged pickle; download it again");
      if (memo_.size() <= slot) memo_.resize(std::max<size_t>(slot + 1, 2 * memo_.size()));
      memo_[slot] = &top();
      return;
    }
    case 'h':
    case 'j': {
      const auto slot = little(operation == 'h' ? 1 : 4);
      if (slot >= memo_.size() || !memo_[slot]) refuse("is a damaged pickle; download it again");
      stack_.push_back(memo_[slot]);
      return;
    }
    case 'U': push({.kind = Kind::kText, .text = next(little(1))}); return;
    case 'T':
    case 'X': push({.kind = Kind::kText, .text = next(little(4))}); return;
    case 'c': {
      const auto module = line();
      const auto name = line();
      push({.text = {module.data(), static_cast<size_t>(name.end() - module.begin())}});
      return;
    }
    case 'R':
    case 'b': make_object(); return;
    case 'J':
    case 'K':
    case 'M':
    case 'N':
    case '\x88':
    case '\x89': take_number(operation); return;
    default: take_container(operation);
  }
}

void PythonPickle::take_number(char operation) {
  int64_t number = operation == '\x88' ? 1 : 0;
  if (operation == 'J') number = static_cast<int32_t>(little(4));
  if (operation == 'K') number = static_cast<int64_t>(little(1));
  if (operation == 'M') number = static_cast<int64_t>(little(2));
  push({.kind = Kind::kNumber, .number = number});
}

void PythonPickle::take_container(char operation) {
  switch (operation) {
    case '}': push({.kind = Kind::kDictionary}); return;
    case ']':
    case ')': push({.kind = Kind::kList}); return;
    case '(': marks_.push_back(stack_.size()); return;
    case 't': {
      auto items = from_mark();
      push({.kind = Kind::kList, .items = std::move(items)});
      return;
    }
    case '\x85':
    case '\x86':
    case '\x87': push_tuple(static_cast<size_t>(operation - '\x85') + 1); return;
    case 'a': {
      const auto* item = pop();
      top().items.push_back(item);
      return;
    }
    case 'e':
    case 'u': {
      const auto items = from_mark();
      std::ranges::copy(items, std::back_inserter(top().items));
      return;
    }
    case 's': {
      const auto* value = pop();
      const auto* key = pop();
      top().items.insert(top().items.end(), {key, value});
      return;
    }
    default: refuse("is a pickle with more in it than lists, texts and arrays of bytes; take the data set's own files");
  }
}

// Makes a function with its arguments, or its result with its state.
void PythonPickle::make_object() {
  const auto* argument = pop();
  const auto& maker = *pop();
  Value object{.text = maker.text, .items = maker.items};
  if (maker.kind != Kind::kOther || maker.items.size() > 1) refuse("is a damaged pickle; download it again");
  object.items.push_back(argument);
  push(std::move(object));
}

std::string_view PythonPickle::next(size_t count) {
  if (count > bytes_.size() - position_) refuse("is truncated: its end is missing; download it again");
  position_ += count;
  return std::string_view(bytes_).substr(position_ - count, count);
}

std::string_view PythonPickle::line() {
  const auto end = bytes_.find('\n', position_);
  const auto text = next(std::min(end, bytes_.size()) - position_);
  next(1);
  return text;
}

uint64_t PythonPickle::little(size_t count) {
  uint64_t number = 0;
  const auto digits = next(count);
  for (size_t i = 0; i < count; ++i) number |= uint64_t{static_cast<uint8_t>(digits[i])} << (8 * i);
  return number;
}

PythonPickle::Value& PythonPickle::push(Value value) {
  if (values_.size() == kMostValues) refuse("holds too many values for this data set; download it again");
  stack_.push_back(&values_.emplace_back(std::move(value)));
  return *stack_.back();
}

PythonPickle::Value& PythonPickle::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("is a damaged pickle; download it again");
  return *stack_.back();
}

PythonPickle::Value* PythonPickle::pop() {
  auto* value = &top();
  stack_.pop_back();
  return value;
}

std::vector<const PythonPickle::Value*> PythonPickle::from_mark() {
  if (marks_.empty()) refuse("is a damaged pickle; download it again");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<const Value*> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void PythonPickle::push_tuple(size_t count) {
  std::vector<const Value*> items(count);
  while (count > 0) items[--count] = pop();
  push({.kind = Kind::kList, .items = std::move(items)});
}

const PythonPickle::Value& PythonPickle::at(std::string_view key, Kind kind) const {
  const auto& items = stack_.front()->items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->kind == Kind::kText && items[i]->text == key && items[i + 1]->kind == kind) return *items[i + 1];
  }
  refuse("is a pickle without what is expected under \"" + std::string(key) + "\"; take the data set's own files");
}

std::vector<int64_t> PythonPickle::numbers(std::string_view key) const {
  std::vector<int64_t> numbers;
  for (const auto* item : at(key, Kind::kList).items) {
    if (item->kind != Kind::kNumber)
      refuse("has something other than whole numbers under \"" + std::string(key) + "\"");
    numbers.push_back(item->number);
  }
  return numbers;
}

std::vector<std::string> PythonPickle::texts(std::string_view key) const {
  std::vector<std::string> texts;
  for (const auto* item : at(key, Kind::kList).items) {
    if (item->kind != Kind::kText) refuse("has something other than texts under \"" + std::string(key) + "\"");
    texts.emplace_back(item->text);
  }
  return texts;
}

// Expects what numpy writes: _reconstruct(...), then the state (version, shape, dtype, is in Fortran order, bytes).
std::span<const uint8_t> PythonPickle::bytes(std::string_view key, size_t columns) const {
  const auto& array = at(key, Kind::kOther);
  const bool is_array = array.text.ends_with(kArray) && array.items.size() == 2 && array.items[1]->items.size() == 5;
  if (is_array) {
    const auto& state = array.items[1]->items;
    const auto& shape = state[1]->items;
    const auto* type = state[2]->items.empty() ? nullptr : state[2]->items[0];
    const bool of_bytes =
        type && !type->items.empty() && (type->items[0]->text == "u1" || type->items[0]->text == "|u1");
    const auto& data = state[4]->text;
    const bool fits = shape.size() == 2 && shape[1]->number == static_cast<int64_t>(columns) && columns > 0 &&
                      data.size() % columns == 0 && shape[0]->number == static_cast<int64_t>(data.size() / columns);
    const bool in_rows = state[3]->kind == Kind::kNumber && state[3]->number == 0 && state[4]->kind == Kind::kText;
    if (of_bytes && fits && in_rows) return {reinterpret_cast<const uint8_t*>(data.data()), data.size()};
  }
  refuse("has no array uint8 [images, " + std::to_string(columns) + "] under \"" + std::string(key) +
         "\"; take the data set's own files");
}

}  // namespace ddprun::cifar

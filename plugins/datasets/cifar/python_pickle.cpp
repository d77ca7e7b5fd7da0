// SPDX-License-Identifier: MIT
#include "python_pickle.h"

#include <ddprun/error.h>

#include <algorithm>

namespace ddprun::cifar {
namespace {

constexpr size_t kMostItems = 4'000'000;        // of a list
constexpr size_t kMostWordsAboutAnArray = 100;  // numpy writes 30 before the elements

// One operation with its argument. Those that only remember a value for later are passed over.
struct Operation {
  char code = 0;
  int64_t number = 0;
  std::string_view text = {};  // of a text; of a function, its module and name

  bool is_number() const { return code == 'J' || code == 'K' || code == 'M'; }
  bool is_text() const { return code == 'U' || code == 'T' || code == 'X'; }
};

// Reads a pickle's operations one after the other, those of protocol 2 that lists, texts and arrays need.
class Operations {
 public:
  Operations(const PythonPickle& pickle, std::string_view bytes) : pickle_(pickle), rest_(bytes) { take(2); }

  Operation next() {
    for (;;) {
      const char code = take(1)[0];
      switch (code) {
        case 'q': take(1); continue;
        case 'r': take(4); continue;
        case 'h': take(1); return {code};
        case 'j': take(4); return {code};
        case 'U': return {code, 0, take(little(1))};
        case 'T':
        case 'X': return {code, 0, take(little(4))};
        case 'c': return {code, 0, two_lines()};
        case 'J': return {code, static_cast<int32_t>(little(4))};
        case 'K': return {code, static_cast<int64_t>(little(1))};
        case 'M': return {code, static_cast<int64_t>(little(2))};
        default: break;
      }
      constexpr std::string_view kWithoutArgument = "}])(tauesRbN.\x85\x86\x87\x88\x89";
      if (kWithoutArgument.find(code) != std::string_view::npos) return {code};
      pickle_.refuse(
          "is a pickle with more in it than lists, texts and arrays of bytes; take the data set's own files");
    }
  }

  // Goes to the value of a key, which begins with the operation `first`.
  Operation value_of(std::string_view key, char first) {
    for (auto operation = next(); operation.code != '.';) {
      const bool found = operation.is_text() && operation.text == key;
      operation = next();
      if (found && operation.code == first) return operation;
    }
    pickle_.refuse("is a pickle without what is expected under \"" + std::string(key) +
                   "\"; take the data set's own files");
  }

  // Returns the items of a list: Python appends them in groups of 1,000, and one that is left over by itself.
  std::vector<Operation> list(std::string_view key) {
    value_of(key, ']');
    std::vector<Operation> items;
    const auto add = [&](const Operation& item) {
      if (items.size() == kMostItems) pickle_.refuse("holds too many values for this data set; download it again");
      items.push_back(item);
    };
    for (;;) {
      auto operation = next();
      if (operation.code == '(') {
        for (operation = next(); operation.code != 'e'; operation = next()) add(operation);
      } else if (next().code == 'a') {
        add(operation);
      } else {
        return items;
      }
    }
  }

 private:
  std::string_view take(size_t count) {
    if (count > rest_.size()) pickle_.refuse("is truncated: its end is missing; download it again");
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view two_lines() {
    const auto end = rest_.find('\n', std::min(rest_.find('\n'), rest_.size() - 1) + 1);
    const auto lines = take(std::min(end, rest_.size()));
    take(1);
    return lines;
  }

  uint64_t little(size_t count) {
    uint64_t number = 0;
    const auto digits = take(count);
    for (size_t i = 0; i < count; ++i) number |= uint64_t{static_cast<uint8_t>(digits[i])} << (8 * i);
    return number;
  }

  const PythonPickle& pickle_;
  std::string_view rest_;
};

}  // namespace

PythonPickle::PythonPickle(std::string place, std::string bytes) : place_(std::move(place)), bytes_(std::move(bytes)) {
  if (!bytes_.starts_with("\x80\x02"))
    refuse("is not a pickle of Python 2's protocol 2; take the data set's own files");
}

void PythonPickle::refuse(const std::string& flaw) const { throw UserError(place_ + ": " + flaw); }

std::vector<int64_t> PythonPickle::numbers(std::string_view key) const {
  std::vector<int64_t> numbers;
  for (const auto& item : Operations(*this, bytes_).list(key)) {
    if (!item.is_number()) refuse("has something other than whole numbers under \"" + std::string(key) + "\"");
    numbers.push_back(item.number);
  }
  return numbers;
}

std::vector<std::string> PythonPickle::texts(std::string_view key) const {
  std::vector<std::string> texts;
  for (const auto& item : Operations(*this, bytes_).list(key)) {
    if (!item.is_text()) refuse("has something other than texts under \"" + std::string(key) + "\"");
    texts.emplace_back(item.text);
  }
  return texts;
}

// Expects what numpy writes: _reconstruct(...), then the state: version, shape, dtype, that it is not in Fortran order,
// and the elements.
std::span<const uint8_t> PythonPickle::bytes(std::string_view key, size_t columns) const {
  Operations operations(*this, bytes_);
  std::vector<Operation> words = {operations.value_of(key, 'c')};
  bool is_array = words.front().text.ends_with("multiarray\n_reconstruct");
  while (is_array && words.back().code != '\x89') {
    words.push_back(operations.next());
    is_array = words.size() < kMostWordsAboutAnArray && words.back().code != '.';
  }
  const auto shape = std::ranges::find(words, '\x86', &Operation::code);
  is_array = is_array && shape != words.end() && shape - words.begin() >= 2 && shape[-1].is_number() &&
             std::ranges::any_of(words, [](const auto& word) { return word.text == "u1" || word.text == "|u1"; });
  if (is_array) {
    const auto data = operations.next().text;
    const auto rows = static_cast<int64_t>(data.size() / columns);
    if (data.size() % columns == 0 && shape[-1].number == static_cast<int64_t>(columns) && shape[-2].number == rows)
      return {reinterpret_cast<const uint8_t*>(data.data()), data.size()};
  }
  refuse("has no array uint8 [images, " + std::to_string(columns) + "] under \"" + std::string(key) +
         "\"; take the data set's own files");
}

}  // namespace ddprun::cifar

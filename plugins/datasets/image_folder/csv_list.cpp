// SPDX-License-Identifier: MIT
#include "csv_list.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace ddprun::images {
namespace {

using Fields = std::vector<std::string>;

constexpr size_t kLongestNumber = 9;  // digits

// Splits one line, such as a,"b ""c""",d. Returns nothing if a quote stays open or text follows a closed one.
std::optional<Fields> split_line(const std::string& line) {
  Fields fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool doubled = quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (doubled) ++i;
    if (line[i] == '"' && !doubled) {
      const bool opens = !quoted && fields.back().empty();
      const bool closes = quoted && (i + 1 == line.size() || line[i + 1] == ',');
      if (!opens && !closes) return std::nullopt;
      quoted = opens;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  if (quoted) return std::nullopt;
  return fields;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= kLongestNumber &&
         std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
}

class Reader {
 public:
  Reader(const std::filesystem::path& csv, const std::filesystem::path& root) : path_(csv), root_(root), file_(csv) {
    if (!file_) throw UserError(csv.string() + ": cannot be opened: " + std::strerror(errno));
    const auto header = next();
    has_split_ = header == Fields{"file", "label", "split"};
    if (!has_split_ && header != Fields{"file", "label"}) refuse("expected the header file,label or file,label,split");
  }

  SampleList read() {
    while (const auto row = next()) take(*row);
    if (file_.bad()) refuse("cannot be read");
    SampleList list{.place = path_.string(), .class_names = sorted_names()};
    for (size_t i = 0; i < list.class_names.size(); ++i) labels_[list.class_names[i]] = static_cast<int64_t>(i);
    std::vector<bool> trained(list.class_names.size());
    for (const auto& row : rows_) {
      const auto label = labels_[row.label];
      if (row.split == Split::kTrain) trained[static_cast<size_t>(label)] = true;
      list.of(row.split).push_back({row.file, label});
    }
    for (size_t i = 0; i < trained.size(); ++i) {
      if (!trained[i]) throw UserError(path_.string() + ": train has no picture of the class " + list.class_names[i]);
    }
    if (trained.empty()) throw UserError(path_.string() + ": names no pictures");
    return list;
  }

 private:
  struct Row {
    std::string file;
    std::string label;
    Split split;
  };

  [[noreturn]] void refuse(const std::string& flaw) const {
    throw UserError(path_.string() + ":" + std::to_string(line_) + ": " + flaw);
  }

  // Returns the next line that is not empty.
  std::optional<Fields> next() {
    for (std::string line; ++line_, std::getline(file_, line);) {
      if (line_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);  // a byte order mark
      if (line.ends_with('\r')) line.pop_back();
      if (line.empty()) continue;
      auto fields = split_line(line);
      if (!fields) refuse("a quote that does not enclose a whole field");
      return fields;
    }
    return std::nullopt;
  }

  void take(const Fields& row) {
    const size_t expected = has_split_ ? 3 : 2;
    if (row.size() != expected) {
      refuse("found " + std::to_string(row.size()) + " fields, expected " + std::to_string(expected));
    }
    if (row[0].empty() || row[1].empty()) refuse("the file or its label is empty");
    labels_[row[1]] = 0;
    auto file = (root_ / row[0]).lexically_normal().string();
    const auto [there, is_new] = lines_.emplace(file, line_);
    if (!is_new) refuse(row[0] + " is also in line " + std::to_string(there->second) + "; name each picture once");
    rows_.push_back({std::move(file), row[1], has_split_ ? split_of(row[2]) : Split::kTrain});
  }

  Split split_of(const std::string& word) const {
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (word == split_name(split)) return split;
    }
    refuse("split \"" + word + "\", expected train, val or test");
  }

  std::vector<std::string> sorted_names() const {
    std::vector<std::string> names;
    for (const auto& [name, label] : labels_) names.push_back(name);
    if (std::ranges::all_of(names, is_number)) {
      std::ranges::stable_sort(names, {}, [](const std::string& name) { return std::stol(name); });
    }
    return names;
  }

  std::filesystem::path path_, root_;
  std::ifstream file_;
  int64_t line_ = 0;
  bool has_split_ = false;
  std::map<std::string, int64_t> labels_;
  std::unordered_map<std::string, int64_t> lines_;  // by file
  std::vector<Row> rows_;
};

}  // namespace

SampleList list_csv(const std::filesystem::path& csv, const std::filesystem::path& root) {
  return Reader(csv, root).read();
}

}  // namespace ddprun::images

// SPDX-License-Identifier: MIT
#include "csv_list.h"

#include "picture_files.h"
#include "shown_text.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace ddprun::images {
namespace {

using Fields = std::vector<std::string>;

constexpr size_t kLongestNumber = 9;  // digits
constexpr size_t kLongestLine = 1 << 16;

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

std::string trimmed(const std::string& text) {
  constexpr auto kBlanks = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kBlanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// Returns what a first line is that is no header, as far as that can be known.
std::string guess_of(const std::string& line) {
  if (line.find('\0') != line.npos || line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF"))
    return "the file is UTF-16, save it as UTF-8";
  if (!is_utf8(line)) return "the file is not UTF-8, save it as that";
  constexpr size_t kMostShown = 60;
  const auto found = "found " + (line.size() > kMostShown ? line.substr(0, kMostShown) + " ..." : line);
  if (line.find('\r') != line.npos) return "lines end with CR alone, save them with LF or CR LF";
  if (line.find(',') != line.npos) return found;
  if (line.find(';') != line.npos) return found + ": fields are separated by semicolons, save them with commas";
  return line.find('\t') != line.npos ? found + ": fields are separated by tabs, save them with commas" : found;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c | 32) : c; });
  return text;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= kLongestNumber &&
         std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
}

class Reader {
 public:
  Reader(const std::filesystem::path& csv, const std::filesystem::path& root) : path_(csv), root_(root) {
    std::error_code error;
    if (std::filesystem::exists(csv, error) && !std::filesystem::is_regular_file(csv, error))
      throw UserError(csv.string() + ": is no file, expected a table");
    file_.open(csv);
    if (!file_) throw UserError(csv.string() + ": cannot be opened: " + std::strerror(errno));
    auto header = next_line() ? split_line(text_).value_or(Fields()) : Fields();
    for (auto& word : header) word = lower(trimmed(word));
    has_split_ = header == Fields{"file", "label", "split"};
    if (!has_split_ && header != Fields{"file", "label"})
      refuse("expected the header file,label or file,label,split; " + guess_of(text_));
  }

  SampleList read() {
    while (const auto row = next()) take(*row);
    if (file_.bad()) refuse("cannot be read");
    SampleList list{.place = path_.string(), .class_names = sorted_names(), .root = root_};
    require_different(list.class_names);
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

  // Reads the next line that is not empty.
  bool next_line() {
    while (++line_, std::getline(file_, text_)) {
      if (line_ == 1 && text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);  // a byte order mark
      if (text_.ends_with('\r')) text_.pop_back();
      if (text_.size() > kLongestLine)
        refuse("the line has " + std::to_string(text_.size()) + " bytes: is it a table?");
      if (line_ > 1 && text_.find('\0') != text_.npos) refuse("a byte of 0, which no text has");
      if (!text_.empty()) return true;
    }
    return false;
  }

  std::optional<Fields> next() {
    if (!next_line()) return std::nullopt;
    auto fields = split_line(text_);
    if (!fields) refuse("a quote that does not enclose a whole field");
    return fields;
  }

  void take(const Fields& row) {
    const size_t expected = has_split_ ? 3 : 2;
    if (row.size() != expected) {
      refuse("found " + std::to_string(row.size()) + " fields, expected " + std::to_string(expected));
    }
    const auto label = trimmed(row[1]);
    if (row[0].empty() || label.empty()) refuse("the file or its label is empty");
    if (const auto flaw = name_flaw(label); !flaw.empty()) refuse("the label " + shown(to_utf8(label)) + " " + flaw);
    if (labels_.emplace(label, 0).second) first_lines_[label] = line_;
    auto file = (root_ / row[0]).lexically_normal().string();
    const auto [there, is_new] = lines_.emplace(file, line_);
    if (!is_new) refuse(row[0] + " is also in line " + std::to_string(there->second) + "; name each picture once");
    rows_.push_back({std::move(file), label, has_split_ ? split_of(row[2]) : Split::kTrain});
  }

  void require_different(const std::vector<std::string>& names) const {
    const auto alike = find_alike(names);
    if (!alike) return;
    const auto line = [&](const std::string& name) { return std::to_string(first_lines_.at(name)); };
    throw UserError(path_.string() + ": the classes \"" + alike->first + "\" (line " + line(alike->first) + ") and \"" +
                    alike->second + "\" (line " + line(alike->second) +
                    ") differ in no more than blanks, case or zeros in front; write them alike");
  }

  Split split_of(const std::string& word) const {
    const auto called = split_called(trimmed(word));
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (called == split_name(split)) return split;
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
  std::string text_;  // of the line
  int64_t line_ = 0;
  bool has_split_ = false;
  std::map<std::string, int64_t> labels_, first_lines_;
  std::unordered_map<std::string, int64_t> lines_;  // by file
  std::vector<Row> rows_;
};

}  // namespace

SampleList list_csv(const std::filesystem::path& csv, const std::filesystem::path& root) {
  return Reader(csv, root).read();
}

}  // namespace ddprun::images

// SPDX-License-Identifier: MIT
// Counts the lines of a file that cannot be read, and tells of them in one sentence.
#pragma once

#include "report/line_reader.h"

#include <string>
#include <vector>

namespace ddprun {

class BrokenLines {
 public:
  explicit BrokenLines(std::string file) : file_(std::move(file)) {}

  void add(const LineReader& reader) {
    if (reader.line().empty() && !reader.too_long()) return;  // an empty line is nobody's loss
    if (++count_ == 1) first_ = reader.number();
    torn_ = !reader.ended();
  }

  // Nothing of a half line at the end: whoever is killed or still writes leaves one.
  void tell(std::vector<std::string>& problems) const {
    if (count_ == 0 || (count_ == 1 && torn_)) return;
    problems.push_back(file_ + ":" + std::to_string(first_) + ": no JSON object; left out" +
                       (count_ > 1 ? ", with " + std::to_string(count_ - 1) + " more" : ""));
  }

 private:
  std::string file_;
  int64_t count_ = 0, first_ = 0;
  bool torn_ = false;
};

}  // namespace ddprun

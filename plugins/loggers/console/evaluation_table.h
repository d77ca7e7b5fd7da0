// SPDX-License-Identifier: MIT
// The results of the evaluations as one table that each one adds a line to.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ddprun::console {

class EvaluationTable {
 public:
  using Row = std::vector<std::pair<std::string, std::string>>;  // column, cell

  // Returns the lines to print: the row, after the header if its columns are not those of the previous row. Columns
  // that do not fit into `width` are left out: first "val time", "lr" and "step", then from the right except for the
  // last, and those of the evaluation ("val loss") after all else.
  std::vector<std::string> add(Row row, size_t width);

 private:
  std::vector<std::pair<std::string, size_t>> columns_;  // with their widths
};

}  // namespace ddprun::console

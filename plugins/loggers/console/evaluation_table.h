// SPDX-License-Identifier: MIT
// The results of the evaluations as one table that grows by a line with each.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ddprun::console {

class EvaluationTable {
 public:
  using Row = std::vector<std::pair<std::string, std::string>>;  // column, cell

  // The lines to print: the row, with the columns' names before it where they are not those of the row before. For
  // `width` columns; what does not fit is left out: "val time", "lr" and "step" first, then from the right, but for the
  // last column; of the evaluation
  // ("val loss") after all else.
  std::vector<std::string> add(Row row, size_t width);

 private:
  std::vector<std::pair<std::string, size_t>> columns_;  // with their widths
};

}  // namespace ddprun::console

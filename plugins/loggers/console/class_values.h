// SPDX-License-Identifier: MIT
// Metrics of each class, "f1/cat", in lines of their own: they would flood a line that has a run's other metrics.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::console {

using Values = std::vector<std::pair<std::string, double>>;

// Metrics with a slash whose names begin alike: "f1", and {"cat", 0.9}, {"dog", 0.8}, ...
struct ClassValues {
  std::string metric;
  Values values;
};

// Takes groups of more than three of them out of `values`, in the order in which they come. Names begin with `split`,
// "val/" or nothing, which the groups' names lack.
std::vector<ClassValues> take_class_values(Values& values, const std::string& split);

// Returns items in lines of at most `width` columns, "cat 70.0 %   dog 50.0 %"; only the lowest `most` of them, the
// lowest first, if there are more. An item is a value, and a text for it.
std::vector<std::string> lowest_in_lines(std::vector<std::pair<double, std::string>> items, size_t most, size_t width);

}  // namespace ddprun::console

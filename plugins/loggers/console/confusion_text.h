// SPDX-License-Identifier: MIT
// A confusion matrix as the few lines that a person wants to see of it.
#pragma once

#include <ddprun/logger.h>

#include <string>
#include <vector>

namespace ddprun::console {

// "4 taken for 9: 12 times", the most frequent first, `most` of them at most; of equals the lower classes.
std::vector<std::string> worst_confusions(const ConfusionTable& table, size_t most);

// The share of each class that was recognised, "cat 93.1 %   dog 88.0 %", filled into lines of `width` columns. Of more
// than `most` classes only the worst so many, the worst first. Classes without a sample are left out.
std::vector<std::string> class_accuracies(const ConfusionTable& table, size_t most, size_t width);

}  // namespace ddprun::console

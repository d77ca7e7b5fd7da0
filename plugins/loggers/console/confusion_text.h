// SPDX-License-Identifier: MIT
// Summarizes a confusion matrix in a few lines.
#pragma once

#include <ddprun/logger.h>

#include <string>
#include <vector>

namespace ddprun::console {

// Returns at most `most` lines "4 taken for 9: 12 times", the most frequent first, ties by lower class.
std::vector<std::string> worst_confusions(const ConfusionTable& table, size_t most);

// Returns the share of each class that was recognized, "cat 93.1 %   dog 88.0 %", wrapped to `width` columns; only the
// worst `most` classes, the worst first, if there are more. Skips classes without a sample.
std::vector<std::string> class_accuracies(const ConfusionTable& table, size_t most, size_t width);

}  // namespace ddprun::console

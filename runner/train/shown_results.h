// SPDX-License-Identifier: MIT
// What an evaluation found, in the form that loggers take.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/logger.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// The dataset's own names, or "0", "1", ... where it has not one for each of `classes`.
std::vector<std::string> class_names(const DataSpec& spec, int64_t classes);

// `counts` as Evaluation::confusion.
ConfusionTable confusion_table(const at::Tensor& counts, const DataSpec& spec, const std::string& split, int64_t epoch,
                               int64_t step);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "train/shown_results.h"

#include <ATen/ATen.h>

namespace ddprun {

std::vector<std::string> class_names(const DataSpec& spec, int64_t classes) {
  if (static_cast<int64_t>(spec.class_names.size()) == classes) return spec.class_names;
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

ConfusionTable confusion_table(const at::Tensor& counts, const DataSpec& spec, const std::string& split, int64_t epoch,
                               int64_t step) {
  const auto dense = counts.cpu().contiguous();
  const auto* first = dense.const_data_ptr<int64_t>();
  return {.split = split,
          .epoch = epoch,
          .step = step,
          .class_names = class_names(spec, counts.size(0)),
          .counts = {first, first + dense.numel()}};
}

}  // namespace ddprun

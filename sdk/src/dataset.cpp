// SPDX-License-Identifier: MIT
#include <ddprun/dataset.h>

namespace ddprun {

Dataset::~Dataset() = default;
void Dataset::prepare(const Progress&) {}
void Dataset::augment(Batch&, const AugmentKey&) const {}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// NumPy's files, and the values in them.
#include "fuzz/fuzz_target.h"
#include "npy_file.h"

#include <array>

namespace ddprun {

void feed_npy(std::string_view bytes) {
  const auto array = arrays::read_npy(map_file(fuzz::as_file(bytes).string()));
  arrays::require_values(array);
  std::vector<float> row(static_cast<size_t>(array.row_values()));
  for (int64_t i = 0; i < array.rows(); ++i) arrays::copy_row(array, i, std::array{arrays::Affine{0.5, 1}}, row.data());
  if (array.holds_integers()) arrays::to_integers(array);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(npy, feed_npy)

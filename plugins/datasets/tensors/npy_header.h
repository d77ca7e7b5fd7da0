// SPDX-License-Identifier: MIT
// The header of NumPy's .npy format: a Python dictionary such as
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::arrays {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Throws std::runtime_error with what is wrong.
NpyHeader parse_npy_header(std::string_view text);

}  // namespace ddprun::arrays

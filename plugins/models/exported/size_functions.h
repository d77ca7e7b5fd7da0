// SPDX-License-Identifier: MIT
// Python's functions of numbers, as a program computes with the sizes of its tensors.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace ddprun::exported {

// Takes as many arguments as the function has in Python: whole numbers, floats and truth values. Throws
// std::runtime_error, such as for a division by zero.
using SizeFunction = c10::IValue (*)(const std::vector<c10::IValue>& arguments);

// Returns the function that the archive calls by this name, "_operator.floordiv" or "torch.sym_max"; null for others.
SizeFunction find_size_function(const std::string& name);

}  // namespace ddprun::exported

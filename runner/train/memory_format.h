// SPDX-License-Identifier: MIT
// The order in which the numbers of images and of their filters lie in memory: trainer.memory_format.
#pragma once

#include "config/experiment.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun {

// What word_of() has said; any other word means channels first.
MemoryFormat memory_format_of(const std::string& word);

// A tensor of four dimensions with its numbers in this order; the tensor itself where they lie so. One channel lies the
// same in both, but kernels take the order from the strides: those are set in any case.
at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat memory_format);

}  // namespace ddprun

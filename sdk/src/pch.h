// SPDX-License-Identifier: MIT
// The headers worth precompiling: all of LibTorch that a model plugin touches.
#pragma once

#include <torch/torch.h>

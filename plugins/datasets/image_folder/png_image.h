// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <cstdio>
#include <memory>

namespace ddprun::images {

// Reads a PNG; the file must outlive it.
std::unique_ptr<Decoder> open_png(std::FILE* file);

}  // namespace ddprun::images

// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <cstdio>
#include <memory>

namespace ddprun::images {

// Reads a WebP, lossy or lossless but not animated; the file must outlive it.
std::unique_ptr<Decoder> open_webp(std::FILE* file);

}  // namespace ddprun::images

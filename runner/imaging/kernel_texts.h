// SPDX-License-Identifier: MIT
// Sources that this program compiles itself, as they were when it was built (embed_sources.cmake).
#pragma once

namespace ddprun {

extern const char* const kImageKernel;       // image_kernel.cu
extern const char* const kImagePlaceHeader;  // image_place.h
extern const char* const kPhiloxHeader;      // ddprun/philox.h

}  // namespace ddprun

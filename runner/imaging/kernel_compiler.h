// SPDX-License-Identifier: MIT
// Compiles GPU code at run time for the present GPU with NVRTC, which comes with LibTorch: neither a
// build nor a user's machine needs a GPU compiler, and there is no list of GPUs to become outdated. Compiling needs no
// GPU.
#pragma once

#include <string>

namespace ddprun {

// Makes NVRTC complete for this process, which LibTorch's and cuDNN's kernels need too: without it they find their
// compiler's parts only if a CUDA toolkit is installed. Throws UserError if NVRTC is missing.
void load_kernel_compiler();

// Compiles one of the sources below for `architecture` ("sm_90"). Throws UserError with NVRTC's message if NVRTC is
// missing or does not know the architecture.
std::string compile_kernels(const char* source, const std::string& architecture);

// Sources that this program compiles itself, as they were when it was built (cmake/embed_texts.cmake).

extern const char* const kBatchNormKernels;  // device/batch_norm_kernels.cu
extern const char* const kImageKernel;       // image_kernel.cu
extern const char* const kNumberKernels;     // metrics/number_kernels.cu

extern const char* const kImagePlaceHeader;  // image_place.h, which image_kernel.cu includes
extern const char* const kPhiloxHeader;      // ddprun/philox.h

}  // namespace ddprun

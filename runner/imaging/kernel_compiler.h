// SPDX-License-Identifier: MIT
// Compiles the GPU code of this folder for the GPU that is there, at run time, by NVRTC: it comes with LibTorch, so
// that neither a build nor a user's machine needs a compiler for GPUs, and no list of GPUs grows old. Compiling needs
// no GPU.
#pragma once

#include <string>

namespace ddprun {

// Makes NVRTC complete for this process, for LibTorch's and cuDNN's kernels, too: without it they find their compiler's
// parts only where a CUDA toolkit is installed. Throws UserError where NVRTC is missing.
void load_kernel_compiler();

// The code of image_kernel.cu as `architecture` ("sm_90") runs it. Throws UserError where NVRTC is missing or knows no
// such architecture, with its own words.
std::string compile_image_kernel(const std::string& architecture);

}  // namespace ddprun

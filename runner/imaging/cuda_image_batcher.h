// SPDX-License-Identifier: MIT
// Images that stay on a GPU as bytes, and batches made of them there by one kernel. Part of the GPU backend's library.
#pragma once

#include "imaging/image_batcher.h"

#include <c10/core/Device.h>

namespace ddprun {

// The kernels, compiled for one GPU: once, for all splits.
class ImageKernels;
std::shared_ptr<const ImageKernels> compile_image_kernels(c10::Device device);  // throws UserError where it fails

// Copies the split's images, labels and tables to the device. With bf16 the input is bfloat16, rounded as LibTorch
// rounds. Throws c10::OutOfMemoryError where the images do not fit.
std::unique_ptr<ImageBatcher> make_cuda_image_batcher(const ImageSource& source, const ImageForm& form,
                                                      c10::Device device, std::shared_ptr<const ImageKernels> kernels);

}  // namespace ddprun

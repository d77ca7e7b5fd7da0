// SPDX-License-Identifier: MIT
// Keeps images on a GPU as bytes and makes batches from them there with one kernel. Part of the GPU backend's library.
#pragma once

#include "imaging/image_batcher.h"

#include <c10/core/Device.h>

namespace ddprun {

// The kernels, compiled for one GPU, once for all splits.
class ImageKernels;
std::shared_ptr<const ImageKernels> compile_image_kernels(c10::Device device);  // throws UserError on failure

// Copies the split's images, labels and tables to the device. For bf16 the input is bfloat16, rounded as by LibTorch.
// Throws c10::OutOfMemoryError if the images do not fit.
std::unique_ptr<ImageBatcher> make_cuda_image_batcher(const ImageSource& source, const ImageForm& form,
                                                      c10::Device device, std::shared_ptr<const ImageKernels> kernels);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Changes of one picture's colours and geometry, for augmentation.
//
// A picture is [C, H, W] uint8 on the CPU, with 1 or 3 channels; the result is a new tensor of the same shape, or the
// same one if nothing changes. What is computed is what Pillow computes, as torchvision's transforms call it: the same
// values, fractions cut off where Pillow cuts them off, or 1 off where sums are rounded in another place. The hue is
// exact, where Pillow goes through 8 bits. Safe to call from any thread.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace ddprun {

// Blend with black, with the mean grey, with the picture in grey, with the smoothed picture: 0 gives those, 1 the
// picture itself, and more than 1 goes beyond it.
DDPRUN_API at::Tensor adjust_brightness(const at::Tensor& picture, double factor);
DDPRUN_API at::Tensor adjust_contrast(const at::Tensor& picture, double factor);
DDPRUN_API at::Tensor adjust_saturation(const at::Tensor& picture, double factor);
DDPRUN_API at::Tensor adjust_sharpness(const at::Tensor& picture, double factor);

// Moves the hue by this part of the circle of colours, -0.5 to 0.5.
DDPRUN_API at::Tensor adjust_hue(const at::Tensor& picture, double part);

// Keeps the upper bits, 1 to 8, of each value.
DDPRUN_API at::Tensor posterize(const at::Tensor& picture, int64_t bits);

// Inverts the values that are not below the threshold.
DDPRUN_API at::Tensor solarize(const at::Tensor& picture, double threshold);

// Stretch each channel to 0 .. 255: its range, or its histogram to an even one.
DDPRUN_API at::Tensor autocontrast(const at::Tensor& picture);
DDPRUN_API at::Tensor equalize(const at::Tensor& picture);

// Takes the pixel at column x and row y, counted from the corner to its middle, from (a x + b y + c, d x + e y + f),
// where matrix is {a, b, c, d, e, f}: bilinear, and black where that lies outside.
DDPRUN_API at::Tensor transform_affine(const at::Tensor& picture, const std::array<double, 6>& matrix);

// Turns the picture around its middle, counter-clockwise.
DDPRUN_API at::Tensor rotate(const at::Tensor& picture, double degrees);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Draws one handwritten-looking digit. Safe to call from any thread.
#pragma once

#include <ddprun/random.h>

#include <cstdint>
#include <span>

namespace ddprun::digits {

constexpr int kSide = 28;  // pixels
constexpr int kPixels = kSide * kSide;

// How much the handwriting varies.
struct Hand {
  double warp = 1;      // scales slant, turn, stretch, shift and wobble; 0 draws the glyphs as they are
  double noise = 0.06;  // standard deviation of the paper's grain, as a share of full ink
};

// Ink is 255, paper 0. Everything random in the picture comes from `random`.
void paint_digit(int digit, const Hand& hand, RandomStream& random, std::span<uint8_t, kPixels> picture);

}  // namespace ddprun::digits

// SPDX-License-Identifier: MIT
// How people write the ten digits: stroke paths, several ways for each.
#pragma once

#include <span>
#include <vector>

namespace ddprun::digits {

// A point in a box of 1 x 1: x to the right, y down.
struct Point {
  double x = 0, y = 0;
};

// Points that the pen passes on a smooth curve, which is closed if the first point is also the last.
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

constexpr int kClasses = 10;

// Returns the ways to write this digit, at least one.
std::span<const Glyph> styles_of(int digit);

}  // namespace ddprun::digits

// SPDX-License-Identifier: MIT
// A picture in its file, and decoded.
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun::images {

inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // 8192 x 8192 are decoded, if nobody allows more
inline constexpr int64_t kMostSide = 1 << 16;

struct Size {
  int64_t height = 0;
  int64_t width = 0;
};

// A part of a picture, in pixels from its upper left corner.
struct Box {
  int64_t top = 0, left = 0;
  Size size;
};

// The part of a picture that is needed. A decoder that can halve the picture on the way does so while both sides of the
// box keep at least `least_side` pixels; 0: it does not.
struct Cut {
  Box box;
  int64_t least_side = 0;
};

// What a file says of its picture. The orientation is Exif's, 1 to 8: how the stored picture is to be turned; 1: it is
// upright.
struct Header {
  Size size;  // as stored
  int orientation = 1;
};

struct Pixels {
  Size size;
  int64_t channels = 3;        // 1: grey; 3: red, green, blue
  std::vector<uint8_t> bytes;  // rows of pixels of channels
};

// The brightness that JPEG defines (ITU-R BT.601), as Pillow rounds it.
constexpr uint8_t grey_of(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

// Returns a part of the picture.
Pixels part_of(const Pixels& whole, const Box& box);

// Converts to this number of channels, 1 or 3.
Pixels with_channels(Pixels pixels, int64_t channels);

// Reads one file, from its beginning. Its methods throw std::runtime_error with what is wrong.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Called once, before pixels().
  virtual Header header() = 0;

  // Returns how many pixels decode() of this cut would hold in memory. Called after header(). Most decode a whole
  // picture before they cut it.
  virtual int64_t decoded_pixels(const Cut& cut) const = 0;

  // Decodes what the cut asks for, halved or not, to 1 or 3 channels. Called once.
  virtual Pixels pixels(int64_t channels, const Cut& cut) = 0;
};

}  // namespace ddprun::images

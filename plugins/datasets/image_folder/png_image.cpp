// SPDX-License-Identifier: MIT
#include "png_image.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ddprun::images {
namespace {

// Owns libpng's objects and its error message.
class Png {
 public:
  explicit Png(std::FILE* file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &Png::on_error, [](png_structp, png_const_charp) {});
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) throw std::runtime_error("libpng cannot start");
    png_set_user_limits(png_, kMostSide, kMostSide);
  }
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  Size size() {
    run([](Png& self) {
      png_init_io(self.png_, self.file_);
      png_read_info(self.png_, self.info_);
    });
    return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }

  Pixels pixels() {
    const auto shape = size();
    run(&Png::set_up);
    Pixels pixels{.size = shape, .channels = png_get_channels(png_, info_)};
    const auto row_bytes = static_cast<size_t>(shape.width * pixels.channels);
    const bool known = pixels.channels == 1 || pixels.channels == 3;
    if (!known || png_get_rowbytes(png_, info_) != row_bytes) throw std::runtime_error("is a PNG of an unknown kind");
    pixels.bytes.resize(row_bytes * static_cast<size_t>(shape.height));
    for (size_t at = 0; at < pixels.bytes.size(); at += row_bytes) rows_.push_back(pixels.bytes.data() + at);
    run([](Png& self) {
      png_read_image(self.png_, self.rows_.data());
      png_read_end(self.png_, nullptr);
    });
    return pixels;
  }

 private:
  // libpng reports errors by longjmp, so `step` must own nothing.
  void run(void (*step)(Png&)) {
    if (setjmp(jump_) == 0) {
      step(*this);
      return;
    }
    throw std::runtime_error("is a damaged PNG (" + std::string(message_.data()) + ")");
  }

  // Converts any kind of PNG to 8 bits of grey or of red, green and blue.
  static void set_up(Png& self) {
    const auto kind = png_get_color_type(self.png_, self.info_);
    if (png_get_bit_depth(self.png_, self.info_) == 16) png_set_scale_16(self.png_);
    if (kind == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(self.png_);
    if (kind == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(self.png_);
    // By now a palette's transparency (tRNS) has become alpha.
    const bool transparent = (kind & PNG_COLOR_MASK_ALPHA) || png_get_valid(self.png_, self.info_, PNG_INFO_tRNS);
    if (transparent) png_set_strip_alpha(self.png_);
    png_set_interlace_handling(self.png_);
    png_read_update_info(self.png_, self.info_);
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    auto& self = *static_cast<Png*>(png_get_error_ptr(png));
    std::strncpy(self.message_.data(), text, self.message_.size() - 1);
    std::longjmp(self.jump_, 1);
  }

  std::FILE* file_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  std::array<char, 128> message_{};
  std::vector<png_bytep> rows_;
};

// Computes the brightness that JPEG defines (ITU-R BT.601).
Pixels to_grey(const Pixels& colour) {
  Pixels grey{.size = colour.size, .channels = 1, .bytes = std::vector<uint8_t>(colour.bytes.size() / 3)};
  for (size_t i = 0; i < grey.bytes.size(); ++i) {
    const auto* rgb = &colour.bytes[3 * i];
    grey.bytes[i] = static_cast<uint8_t>((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
  }
  return grey;
}

Pixels to_colour(const Pixels& grey) {
  Pixels colour{.size = grey.size, .channels = 3, .bytes = std::vector<uint8_t>(grey.bytes.size() * 3)};
  for (size_t i = 0; i < colour.bytes.size(); ++i) colour.bytes[i] = grey.bytes[i / 3];
  return colour;
}

}  // namespace

Size read_png_size(std::FILE* file) { return Png(file).size(); }

Pixels read_png(std::FILE* file, int64_t channels) {
  auto pixels = Png(file).pixels();
  if (pixels.channels == channels) return pixels;
  return channels == 1 ? to_grey(pixels) : to_colour(pixels);
}

}  // namespace ddprun::images

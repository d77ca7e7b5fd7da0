// SPDX-License-Identifier: MIT
// PNG and JPEG files of every kind for the tests.
#pragma once

#include <jpeglib.h>
#include <png.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::test {

struct PngKind {
  int color_type = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  int interlace = PNG_INTERLACE_NONE;
};

// `bytes` is a row after the other, as PNG packs them.
inline void write_png(const std::filesystem::path& path, unsigned width, unsigned height,
                      std::vector<unsigned char> bytes, const PngKind& kind = {},
                      const std::vector<png_color>& palette = {},
                      const std::vector<unsigned char>& palette_alpha = {}) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file.get());
  png_set_IHDR(png, info, width, height, kind.bits, kind.color_type, kind.interlace, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (!palette_alpha.empty())
    png_set_tRNS(png, info, palette_alpha.data(), static_cast<int>(palette_alpha.size()), nullptr);
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (size_t row = 0; row < height; ++row) rows.push_back(bytes.data() + row * png_get_rowbytes(png, info));
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
}

// A picture of one colour; channels: 1 grey, 3 RGB, 4 CMYK.
inline void write_jpeg(const std::filesystem::path& path, unsigned width, unsigned height,
                       const std::vector<unsigned char>& pixel) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file.get());
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = static_cast<int>(pixel.size());
  jpeg.in_color_space = pixel.size() == 1 ? JCS_GRAYSCALE : (pixel.size() == 3 ? JCS_RGB : JCS_CMYK);
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 98, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<unsigned char> row;
  for (unsigned x = 0; x < width; ++x) row.insert(row.end(), pixel.begin(), pixel.end());
  JSAMPROW pointer = row.data();
  while (jpeg.next_scanline < height) jpeg_write_scanlines(&jpeg, &pointer, 1);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
}

// A PNG of one colour.
inline void write_png(const std::filesystem::path& path, unsigned width, unsigned height, unsigned char red,
                      unsigned char green, unsigned char blue) {
  std::vector<unsigned char> bytes;
  for (unsigned i = 0; i < width * height; ++i) bytes.insert(bytes.end(), {red, green, blue});
  write_png(path, width, height, bytes);
}

}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
// Pictures for the tests, and folders of them for the dataset image_folder.
#pragma once

#include "plugin_under_test.h"

#include <jpeglib.h>
#include <png.h>

#include <cstdio>
#include <map>
#include <memory>

namespace ddprun::test {

// `bytes` has RGB, a row after the other.
inline void write_png(const std::filesystem::path& path, unsigned width, unsigned height,
                      const std::vector<unsigned char>& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  std::filesystem::create_directories(path.parent_path());
  if (!png_image_write_to_file(&image, path.c_str(), 0, bytes.data(), 0, nullptr))
    throw std::runtime_error(image.message);
}

// A PNG of one colour.
inline void write_png(const std::filesystem::path& path, unsigned width, unsigned height, unsigned char red,
                      unsigned char green, unsigned char blue) {
  std::vector<unsigned char> bytes;
  for (unsigned i = 0; i < width * height; ++i) bytes.insert(bytes.end(), {red, green, blue});
  write_png(path, width, height, bytes);
}

// A JPEG of one colour, grey or RGB.
inline void write_jpeg(const std::filesystem::path& path, unsigned width, unsigned height,
                       const std::vector<unsigned char>& pixel) {
  std::filesystem::create_directories(path.parent_path());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file.get());
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = static_cast<int>(pixel.size());
  jpeg.in_color_space = pixel.size() == 1 ? JCS_GRAYSCALE : JCS_RGB;
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

class PictureFolder : public FolderTest {
 protected:
  std::filesystem::path place(const std::string& name) const { return root_ / name; }
  void png(const std::string& name, unsigned char red) const { write_png(place(name), 10, 12, red, 0, 0); }
  void text(const std::string& name, const std::string& bytes = "no picture") const { write(place(name), bytes); }

  // Changes a byte of its pixels.
  void damage(const std::string& name) const {
    auto bytes = read(place(name));
    bytes[bytes.size() - 30] ^= 1;
    text(name, bytes);
  }

  std::shared_ptr<Dataset> load(Settings settings = {}) const {
    settings.insert(settings.begin(), {{"root", root_}, {"size", "8"}});
    return load_dataset(IMAGE_FOLDER_PLUGIN, settings);
  }
  std::shared_ptr<Dataset> start(const Settings& settings = {}) const {
    auto data = load(settings);
    data->start();
    return data;
  }
  std::shared_ptr<Dataset> prepare(const Settings& settings = {}, const Progress& progress = ignore) const {
    auto data = load(settings);
    data->prepare(progress);
    data->start();
    return data;
  }
  std::string problem(const Settings& settings = {}) const {
    return error_of([&] { prepare(settings); });
  }

  static void ignore(const std::string&, int64_t, int64_t) {}

  static std::map<std::string, int64_t> reasons(const Dataset& data) {
    std::map<std::string, int64_t> counts;
    for (const auto& left : data.account().left_alone) counts[left.reason] = left.count;
    return counts;
  }

  const std::filesystem::path root_ = folder_ / "photos";
  OwnCache cache_;
};

}  // namespace ddprun::test

// SPDX-License-Identifier: MIT
#include "png_image.h"

#include "exif.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ddprun::images {
namespace {

// Returns the content of the last chunk eXIf, which may lie behind the pixels too. The file's position stays.
std::string exif_of(std::FILE* file) {
  constexpr size_t kSignature = 8, kSum = 4, kMost = 1 << 20;
  const long position = std::ftell(file);
  std::string exif;
  std::array<png_byte, 8> head{};  // a chunk's length and name
  for (size_t at = kSignature; std::fseek(file, static_cast<long>(at), SEEK_SET) == 0 &&
                               std::fread(head.data(), 1, head.size(), file) == head.size();) {
    const size_t length = png_get_uint_32(head.data());
    if (std::memcmp(&head[4], "IEND", 4) == 0) break;
    if (std::memcmp(&head[4], "eXIf", 4) == 0 && length <= kMost) {
      exif.resize(length);
      exif.resize(std::fread(exif.data(), 1, length, file));
    }
    at += head.size() + length + kSum;
  }
  std::fseek(file, position, SEEK_SET);
  return exif;
}

// Owns libpng's objects and its error message.
class Png final : public Decoder {
 public:
  explicit Png(std::FILE* file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &Png::on_error, [](png_structp, png_const_charp) {});
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) throw std::runtime_error("libpng cannot start");
    png_set_user_limits(png_, kMostSide, kMostSide);
    // libpng takes as much memory for a chunk as it claims to have. Pixels need none of these; exif_of() reads its own.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>("eXIf"), 1);
  }
  ~Png() override { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  Header header() override {
    run([](Png& self) {
      png_init_io(self.png_, self.file_);
      png_read_info(self.png_, self.info_);
    });
    return {.size = size(), .orientation = orientation_of(exif_of(file_))};
  }

  int64_t decoded_pixels(const Cut&) const override { return size().height * size().width; }

  Pixels pixels(int64_t channels, const Cut& cut) override {
    run(&Png::set_up);
    Pixels pixels{.size = size(), .channels = png_get_channels(png_, info_)};
    const auto row_bytes = static_cast<size_t>(pixels.size.width * pixels.channels);
    const bool known = pixels.channels == 1 || pixels.channels == 3;
    if (!known || png_get_rowbytes(png_, info_) != row_bytes) throw std::runtime_error("is a PNG of an unknown kind");
    pixels.bytes.resize(row_bytes * static_cast<size_t>(pixels.size.height));
    for (size_t at = 0; at < pixels.bytes.size(); at += row_bytes) rows_.push_back(pixels.bytes.data() + at);
    run([](Png& self) {
      png_read_image(self.png_, self.rows_.data());
      png_read_end(self.png_, nullptr);
    });
    return with_channels(part_of(pixels, cut.box), channels);
  }

 private:
  Size size() const { return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)}; }

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

}  // namespace

std::unique_ptr<Decoder> open_png(std::FILE* file) { return std::make_unique<Png>(file); }

}  // namespace ddprun::images

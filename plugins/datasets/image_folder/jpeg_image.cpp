// SPDX-License-Identifier: MIT
#include "jpeg_image.h"

#include <jerror.h>
#include <jpeglib.h>

#include <array>
#include <csetjmp>
#include <stdexcept>
#include <string>

namespace ddprun::images {
namespace {

// Owns libjpeg's object and its error message.
class Jpeg {
 public:
  explicit Jpeg(std::FILE* file) : file_(file) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = &Jpeg::on_error;
    errors_.emit_message = &Jpeg::on_message;
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  Size size() {
    run([](Jpeg& self) {
      jpeg_create_decompress(&self.info_);
      jpeg_stdio_src(&self.info_, self.file_);
      jpeg_read_header(&self.info_, TRUE);
    });
    if (info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK) {
      throw std::runtime_error("is a CMYK JPEG, expected grey or RGB; convert it");
    }
    return {info_.image_height, info_.image_width};
  }

  Pixels pixels(int64_t channels) {
    Pixels pixels{.size = size(), .channels = channels};
    info_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    row_bytes_ = static_cast<size_t>(pixels.size.width * channels);
    pixels.bytes.resize(row_bytes_ * static_cast<size_t>(pixels.size.height));
    out_ = pixels.bytes.data();
    run([](Jpeg& self) {
      jpeg_start_decompress(&self.info_);
      while (self.info_.output_scanline < self.info_.output_height) {
        JSAMPROW row = self.out_ + self.info_.output_scanline * self.row_bytes_;
        jpeg_read_scanlines(&self.info_, &row, 1);
      }
      jpeg_finish_decompress(&self.info_);
    });
    return pixels;
  }

 private:
  // libjpeg reports errors by longjmp, so `step` must own nothing.
  void run(void (*step)(Jpeg&)) {
    if (setjmp(jump_) == 0) {
      step(*this);
      return;
    }
    throw std::runtime_error("is a damaged JPEG (" + std::string(message_.data()) + ")");
  }

  static void on_error(j_common_ptr info) {
    auto& self = *static_cast<Jpeg*>(info->client_data);
    self.errors_.format_message(info, self.message_.data());
    std::longjmp(self.jump_, 1);
  }

  // libjpeg only warns about missing data, and leaves the rest of the picture grey.
  static void on_message(j_common_ptr info, int level) {
    const int code = info->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) on_error(info);
  }

  std::FILE* file_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> message_{};
  size_t row_bytes_ = 0;
  uint8_t* out_ = nullptr;
};

}  // namespace

Size read_jpeg_size(std::FILE* file) { return Jpeg(file).size(); }
Pixels read_jpeg(std::FILE* file, int64_t channels) { return Jpeg(file).pixels(channels); }

}  // namespace ddprun::images

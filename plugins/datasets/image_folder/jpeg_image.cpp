// SPDX-License-Identifier: MIT
#include "jpeg_image.h"

#include "exif.h"

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun::images {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kMostExif = 0xFFFF;
constexpr int64_t kMargin = 16;   // columns that smoothing of colours may look at beyond the cut
constexpr size_t kUnaligned = 1;  // libjpeg-turbo writes aligned rows around the cache, where they are read next

// Returns the largest of 1, 2, 4 and 8 by which the box may be divided.
unsigned divisor_of(const Cut& cut) {
  unsigned divisor = 1;
  const auto shorter = std::min(cut.box.size.height, cut.box.size.width);
  while (cut.least_side > 0 && divisor < 8 && shorter / (2 * divisor) >= cut.least_side) divisor *= 2;
  return divisor;
}

// Returns the box in a picture that is `divisor` times smaller, and has this size.
Box divided(const Box& box, int64_t divisor, const Size& size) {
  const auto nearest = [&](int64_t number) { return (number + divisor / 2) / divisor; };
  Box small{nearest(box.top), nearest(box.left), {}};
  small.size.height = std::min(nearest(box.top + box.size.height), size.height) - small.top;
  small.size.width = std::min(nearest(box.left + box.size.width), size.width) - small.left;
  return small;
}

// Converts what Pillow and Photoshop take for CMYK: of each ink the file holds what is left white.
void to_colours(const uint8_t* cmyk, uint8_t* colours, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, cmyk += 4) {
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[c]) * cmyk[3] + 128;
      *colours++ = static_cast<uint8_t>(std::max(0, cmyk[3] - (((product >> 8) + product) >> 8)));
    }
  }
}

// Reads the file for libjpeg: little for the header, then much at once. libjpeg's own source reads 4 KiB at a time, and
// its fast way to decode is only taken where 3 KiB or more are left.
class Source : public jpeg_source_mgr {
 public:
  explicit Source(std::FILE* file) : jpeg_source_mgr{}, file_(file) {
    init_source = [](j_decompress_ptr) {};
    fill_input_buffer = [](j_decompress_ptr info) { return static_cast<Source*>(info->src)->fill(info); };
    skip_input_data = [](j_decompress_ptr info, long bytes) { static_cast<Source*>(info->src)->skip(info, bytes); };
    resync_to_restart = jpeg_resync_to_restart;
    term_source = [](j_decompress_ptr) {};
  }

 private:
  boolean fill(j_decompress_ptr info) {
    constexpr size_t kHeader = 4096, kRest = size_t{1} << 16;
    buffer_.resize(buffer_.empty() ? kHeader : kRest);
    bytes_in_buffer = std::fread(buffer_.data(), 1, buffer_.size(), file_);
    next_input_byte = buffer_.data();
    if (bytes_in_buffer == 0) WARNMS(info, JWRN_JPEG_EOF);  // which is an error here
    return TRUE;
  }

  void skip(j_decompress_ptr info, long bytes) {
    for (auto rest = static_cast<size_t>(std::max(bytes, 0L)); rest > 0;) {
      if (bytes_in_buffer == 0) fill(info);
      const auto some = std::min(rest, bytes_in_buffer);
      next_input_byte += some;
      bytes_in_buffer -= some;
      rest -= some;
    }
  }

  std::FILE* file_;
  std::vector<JOCTET> buffer_;
};

// Owns libjpeg's object and its error message.
class Jpeg final : public Decoder {
 public:
  explicit Jpeg(std::FILE* file) : source_(file) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = &Jpeg::on_error;
    errors_.emit_message = &Jpeg::on_message;
  }
  ~Jpeg() override { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  Header header() override {
    run([](Jpeg& self) {
      jpeg_create_decompress(&self.info_);
      jpeg_save_markers(&self.info_, kExifMarker, kMostExif);
      self.info_.src = &self.source_;
      jpeg_read_header(&self.info_, TRUE);
    });
    return {.size = {info_.image_height, info_.image_width}, .orientation = orientation_of(exif())};
  }

  // All scans of a picture that has several are kept in memory, two bytes a number.
  int64_t decoded_pixels(const Cut& cut) const override {
    constexpr int64_t kScansForOne = 4;
    const int64_t all = int64_t{info_.image_height} * info_.image_width, divisor = divisor_of(cut);
    const int64_t decoded = cut.box.size.height * cut.box.size.width / (divisor * divisor);
    return jpeg_has_multiple_scans(const_cast<jpeg_decompress_struct*>(&info_)) ? std::max(decoded, all / kScansForOne)
                                                                                : decoded;
  }

  Pixels pixels(int64_t channels, const Cut& cut) override {
    const bool is_cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = is_cmyk ? JCS_CMYK : (channels == 1 ? JCS_GRAYSCALE : JCS_RGB);
    info_.scale_num = 1;
    info_.scale_denom = divisor_of(cut);
    run([](Jpeg& self) { jpeg_start_decompress(&self.info_); });
    box_ = divided(cut.box, info_.scale_denom, {info_.output_height, info_.output_width});
    Pixels pixels{.size = box_.size, .channels = is_cmyk ? 3 : channels};
    pixels.bytes.resize(static_cast<size_t>(box_.size.height * box_.size.width * pixels.channels));
    read_rows(pixels);
    return with_channels(std::move(pixels), channels);
  }

 private:
  // Decodes the box's rows, and of these the blocks that its columns lie in.
  void read_rows(Pixels& pixels) {
    const auto right = std::min<int64_t>(box_.left + box_.size.width + kMargin, info_.output_width);
    first_column_ = static_cast<JDIMENSION>(std::max<int64_t>(0, box_.left - kMargin));
    columns_ = static_cast<JDIMENSION>(right) - first_column_;
    run([](Jpeg& self) {
      if (self.columns_ < self.info_.output_width) {
        jpeg_crop_scanline(&self.info_, &self.first_column_, &self.columns_);
      }
      if (self.box_.top > 0) jpeg_skip_scanlines(&self.info_, static_cast<JDIMENSION>(self.box_.top));
    });
    row_.resize(kUnaligned + static_cast<size_t>(columns_) * static_cast<size_t>(info_.output_components));
    for (auto* out = pixels.bytes.data(); out != pixels.bytes.data() + pixels.bytes.size();) {
      run([](Jpeg& self) {
        JSAMPROW row = self.row_.data() + kUnaligned;
        jpeg_read_scanlines(&self.info_, &row, 1);
      });
      const auto* from = &row_[kUnaligned + static_cast<size_t>((box_.left - first_column_) * info_.output_components)];
      if (info_.output_components == 4)
        to_colours(from, out, box_.size.width);
      else
        std::copy_n(from, box_.size.width * pixels.channels, out);
      out += box_.size.width * pixels.channels;
    }
    if (info_.output_scanline == info_.output_height) run([](Jpeg& self) { jpeg_finish_decompress(&self.info_); });
  }

  // The data may continue in a second marker.
  std::string exif() const {
    constexpr std::string_view kName("Exif\0\0", 6);
    std::string data;
    for (const auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      const std::string_view content(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (content.starts_with(kName)) data += content.substr(kName.size());
    }
    return data;
  }

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

  Source source_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> message_{};
  Box box_;                                    // of the picture as it is decoded
  JDIMENSION first_column_ = 0, columns_ = 0;  // that are decoded
  std::vector<uint8_t> row_;
};

}  // namespace

std::unique_ptr<Decoder> open_jpeg(std::FILE* file) { return std::make_unique<Jpeg>(file); }

}  // namespace ddprun::images

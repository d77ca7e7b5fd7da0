// SPDX-License-Identifier: MIT
#include "webp_image.h"

#include "exif.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::images {
namespace {

std::vector<uint8_t> content_of(std::FILE* file) {
  std::vector<uint8_t> bytes;
  std::array<uint8_t, 1 << 16> part{};
  while (const auto got = std::fread(part.data(), 1, part.size(), file)) {
    bytes.insert(bytes.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(got));
  }
  return bytes;
}

class WebP final : public Decoder {
 public:
  explicit WebP(std::FILE* file) : file_(file) {}

  Header header() override {
    bytes_ = content_of(file_);
    WebPBitstreamFeatures features{};
    if (WebPGetFeatures(bytes_.data(), bytes_.size(), &features) != VP8_STATUS_OK) throw damaged();
    if (features.has_animation) throw std::runtime_error("is an animated WebP, expected a single picture");
    size_ = {features.height, features.width};
    return {.size = size_, .orientation = orientation_of(exif())};
  }

  int64_t decoded_pixels(const Cut&) const override { return size_.height * size_.width; }

  Pixels pixels(int64_t channels, const Cut& cut) override {
    Pixels pixels{.size = size_, .channels = 3};
    pixels.bytes.resize(static_cast<size_t>(size_.height * size_.width * 3));
    const auto* decoded = WebPDecodeRGBInto(bytes_.data(), bytes_.size(), pixels.bytes.data(), pixels.bytes.size(),
                                            static_cast<int>(size_.width * 3));
    if (decoded == nullptr) throw damaged();
    return with_channels(part_of(pixels, cut.box), channels);
  }

 private:
  static std::runtime_error damaged() { return std::runtime_error("is a damaged WebP"); }

  std::string exif() const {
    const WebPData data{bytes_.data(), bytes_.size()};
    const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data), WebPDemuxDelete);
    WebPChunkIterator found{};
    if (!demuxer || !WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &found)) return "";
    std::string content(reinterpret_cast<const char*>(found.chunk.bytes), found.chunk.size);
    WebPDemuxReleaseChunkIterator(&found);
    return content;
  }

  std::FILE* file_;
  std::vector<uint8_t> bytes_;
  Size size_;
};

}  // namespace

std::unique_ptr<Decoder> open_webp(std::FILE* file) { return std::make_unique<WebP>(file); }

}  // namespace ddprun::images

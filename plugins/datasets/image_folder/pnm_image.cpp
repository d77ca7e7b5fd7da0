// SPDX-License-Identifier: MIT
#include "pnm_image.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::images {
namespace {

[[noreturn]] void refuse_pnm(const std::string& what) { throw std::runtime_error("is a PNM " + what); }

constexpr bool is_blank(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Pnm final : public Decoder {
 public:
  explicit Pnm(std::FILE* file) : file_(file) {}

  Header header() override {
    ::getc_unlocked(file_);  // the P
    kind_ = ::getc_unlocked(file_) - '0';
    const auto width = number(), height = number();
    if (width < 1 || height < 1) refuse_pnm("without pixels");
    size_ = {height, width};
    greatest_ = is_bitmap() ? 1 : number();
    if (greatest_ < 1 || greatest_ > 65535) refuse_pnm("whose greatest value is " + std::to_string(greatest_));
    return {.size = size_};
  }

  int64_t decoded_pixels(const Cut&) const override { return size_.height * size_.width; }

  Pixels pixels(int64_t channels, const Cut& cut) override {
    Pixels all{.size = size_, .channels = kind_ == 3 || kind_ == 6 ? 3 : 1};
    all.bytes.resize(static_cast<size_t>(size_.height * size_.width * all.channels));
    if (kind_ == 4)
      read_bits(all);
    else if (!is_plain() && greatest_ == 255)
      require(std::fread(all.bytes.data(), 1, all.bytes.size(), file_) == all.bytes.size());
    else
      for (auto& byte : all.bytes) byte = value();
    return with_channels(part_of(all, cut.box), channels);
  }

 private:
  bool is_bitmap() const { return kind_ == 1 || kind_ == 4; }
  bool is_plain() const { return kind_ <= 3; }

  static void require(bool is_there) {
    if (!is_there) refuse_pnm("that is cut short");
  }

  // Returns the next character that is not of a comment, which ends with its line.
  int next() {
    int c = ::getc_unlocked(file_);
    while (c == '#') {
      while (c != '\n' && c != '\r' && c != EOF) c = ::getc_unlocked(file_);
      if (c != EOF) c = ::getc_unlocked(file_);
    }
    return c;
  }

  // Reads a number and the blank behind it.
  int64_t number() {
    constexpr size_t kMostDigits = 10;
    int c = next();
    while (is_blank(c)) c = next();
    std::string digits;
    for (; c >= '0' && c <= '9' && digits.size() <= kMostDigits; c = next()) digits += static_cast<char>(c);
    require(c != EOF || !digits.empty());
    if (digits.empty() || digits.size() > kMostDigits || (c != EOF && !is_blank(c)))
      refuse_pnm("that is damaged: expected a number");
    return std::stol(digits);
  }

  // Black is 1 in a bitmap.
  uint8_t value() {
    if (is_bitmap()) {
      int c = next();
      while (is_blank(c)) c = next();
      require(c != EOF);
      if (c != '0' && c != '1') refuse_pnm("that is damaged: expected 0 or 1");
      return c == '0' ? 255 : 0;
    }
    const auto found = is_plain() ? number() : binary();
    if (is_plain() && found > greatest_) refuse_pnm("that is damaged: " + std::to_string(found) + " is too large");
    return static_cast<uint8_t>(
        std::min(255.0, std::nearbyint(static_cast<double>(found) / static_cast<double>(greatest_) * 255)));
  }

  int64_t binary() {
    const int high = greatest_ > 255 ? ::getc_unlocked(file_) : 0, low = ::getc_unlocked(file_);
    require(high != EOF && low != EOF);
    return high << 8 | low;
  }

  void read_bits(Pixels& pixels) {
    auto* out = pixels.bytes.data();
    for (int64_t y = 0; y < size_.height; ++y) {
      int byte = 0;
      for (int64_t x = 0; x < size_.width; ++x) {
        if (x % 8 == 0) byte = ::getc_unlocked(file_);
        require(byte != EOF);
        *out++ = (byte >> (7 - x % 8) & 1) != 0 ? 0 : 255;
      }
    }
  }

  std::FILE* file_;
  int kind_ = 0;
  Size size_;
  int64_t greatest_ = 255;
};

}  // namespace

std::unique_ptr<Decoder> open_pnm(std::FILE* file) { return std::make_unique<Pnm>(file); }

}  // namespace ddprun::images

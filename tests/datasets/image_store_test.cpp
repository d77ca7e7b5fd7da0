// SPDX-License-Identifier: MIT
#include <ddprun/image_store.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

const ImageFormat kFormat{.shape = {2, 2, 3}, .mean = {0.5, 0.25}, .std = {0.5, 2}};

// Four images of 2 channels, 2 x 3: byte i of all is 5 * i.
ImageStore make_store() {
  const std::shared_ptr<uint8_t[]> pixels(new uint8_t[48]);
  for (int i = 0; i < 48; ++i) pixels[i] = static_cast<uint8_t>(5 * i);
  return {kFormat, {pixels, pixels.get()}, {7, 8, 9, 10}};
}

TEST(ImageStore, GathersNormalizedImagesInTheOrderAsked) {
  const auto batch = make_store().gather(std::vector<int64_t>{3, 0, 1, 3});  // of a store that is gone
  EXPECT_EQ(batch.input.sizes(), (std::vector<int64_t>{4, 2, 2, 3}));
  EXPECT_TRUE(batch.target.equal(at::tensor({10, 7, 8, 10}, at::kLong)));
  EXPECT_TRUE(batch.index.equal(at::tensor({3, 0, 1, 3}, at::kLong)));
  EXPECT_TRUE(batch.input[0].equal(batch.input[3]));
  EXPECT_FLOAT_EQ(batch.input[2][0][0][0].item<float>(), (60 / 255.0 - 0.5) / 0.5);
  EXPECT_FLOAT_EQ(batch.input[2][1][1][2].item<float>(), (115 / 255.0 - 0.25) / 2);
  EXPECT_FLOAT_EQ(batch.input[1][0][0][0].item<float>(), static_cast<float>(black_of(kFormat)[0])) << "a byte of 0";
  EXPECT_FLOAT_EQ(static_cast<float>(black_of(kFormat)[1]), -0.25 / 2);
}

TEST(ImageStore, ToImageGivesTheStoredBytesBack) {
  const auto store = make_store();
  const auto images = store.to_image(store.gather(std::vector<int64_t>{2, 1}).input);
  ASSERT_EQ(images.sizes(), (std::vector<int64_t>{2, 2, 2, 3}));
  const auto bytes = store.pixels(2);
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(images[0].flatten()[i].item<int>(), bytes[static_cast<size_t>(i)]);
}

TEST(GatherImages, TakesWhatAStoreHoldsInStridesOfAnyOrder) {
  const auto store = make_store();
  const auto make = [&](int64_t index, int64_t& label) {
    label = 7 + index;
    auto* bytes = const_cast<uint8_t*>(store.pixels(index).data());  // from_blob takes no const; nothing writes to it
    const auto image = at::from_blob(bytes, {2, 2, 3}, at::kByte);
    return index % 2 == 0 ? image : image.permute({1, 2, 0}).contiguous().permute({2, 0, 1});
  };
  const std::vector<int64_t> indices{3, 0, 1};
  const auto batch = gather_images(kFormat, indices, make), stored = store.gather(indices);
  EXPECT_TRUE(batch.input.equal(stored.input));
  EXPECT_TRUE(batch.target.equal(stored.target));
  EXPECT_TRUE(batch.index.equal(stored.index));
  EXPECT_THROW(gather_images({.shape = {2, 3, 2}, .mean = {0}, .std = {1}}, indices, make), std::invalid_argument);
}

// 100 images of one byte, each its number, that count how often they are painted.
struct PaintedStore {
  std::array<std::atomic<int>, 100> times{};
  ImageStore store{{.shape = {1, 1, 1}, .mean = {0}, .std = {1}},
                   std::vector<int64_t>(100),
                   [this](int64_t image, std::span<uint8_t> bytes) {
                     ++times[static_cast<size_t>(image)];
                     bytes[0] = static_cast<uint8_t>(image);
                   }};
};

TEST(ImageStore, PaintsEachImageThatIsReadOnceWhateverThreadReadsIt) {
  PaintedStore painted;
  const auto part = painted.store.slice(40, 20);
  std::vector<std::jthread> readers;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread) {
    readers.emplace_back([&] {
      for (int64_t i = 0; i < 20; ++i)
        wrong += part.pixels(i)[0] != 40 + i || painted.store.pixels(50 + i)[0] != 50 + i;
    });
  }
  readers.clear();
  EXPECT_EQ(wrong, 0);
  for (size_t i = 0; i < painted.times.size(); ++i) EXPECT_EQ(painted.times[i], i >= 40 && i < 70 ? 1 : 0) << i;
}

TEST(ImageStore, PaintsAnImageAgainAfterAFailure) {
  bool fails = true;
  const ImageStore store({.shape = {1, 1, 1}, .mean = {0}, .std = {1}}, {0}, [&](int64_t, std::span<uint8_t> bytes) {
    if (std::exchange(fails, false)) throw std::runtime_error("no paint");
    bytes[0] = 9;
  });
  EXPECT_THROW(store.pixels(0), std::runtime_error);
  EXPECT_EQ(store.pixels(0)[0], 9);
}

TEST(ImageStore, RefusesNumbersOutsideTheStoreAndAFormatThatFitsNoImage) {
  const auto store = make_store();
  EXPECT_EQ(store.slice(2, 2).gather(std::vector<int64_t>{0}).target.item<int64_t>(), 9);
  EXPECT_EQ(store.slice(4, 0).size(), 0);
  for (const int64_t number : {4, -1}) EXPECT_THROW(store.gather(std::vector<int64_t>{0, number}), std::out_of_range);
  EXPECT_THROW(store.slice(3, 2), std::out_of_range);
  EXPECT_THROW(ImageStore().gather(std::vector<int64_t>{0}), std::out_of_range);
  EXPECT_THROW(ImageStore({.shape = {2, 2}, .mean = {0}, .std = {1}}, nullptr, {}), std::invalid_argument);
  EXPECT_THROW(ImageStore({.shape = {3, 2, 2}, .mean = {0, 0}, .std = {1}}, nullptr, {}), std::invalid_argument);
}

}  // namespace
}  // namespace ddprun

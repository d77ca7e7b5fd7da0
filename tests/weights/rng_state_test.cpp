// SPDX-License-Identifier: MIT
#include "support/idle_backend.h"
#include "weights/state_guard.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ddprun {
namespace {

// A process with several devices, each with a generator of its own.
class Devices final : public testing::IdleBackend {
 public:
  explicit Devices(int64_t count) : IdleBackend("none") {
    for (int64_t i = 0; i < count; ++i) {
      devices_.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(i));
      generators_.push_back(at::detail::createCPUGenerator());
    }
  }
  std::vector<c10::Device> devices() const override { return devices_; }
  at::Generator generator(c10::Device device) const override { return generators_.at(device.index()); }

  // The next number of the CPU's generator and of each device's.
  std::vector<double> draw() const {
    std::vector<double> numbers{at::rand({}, at::kDouble).item<double>()};
    for (const auto& generator : generators_) numbers.push_back(at::rand({}, generator, at::kDouble).item<double>());
    return numbers;
  }

 private:
  std::vector<c10::Device> devices_;
  std::vector<at::Generator> generators_;
};

TEST(RngState, EveryRankDrawsItsOwnNumbersOnTheCpuToo) {
  std::set<double> numbers;
  for (int64_t rank = 0; rank < 8; ++rank) {
    seed_generators(42, rank, nullptr);
    numbers.insert(at::rand({}, at::kDouble).item<double>());
  }
  EXPECT_EQ(numbers.size(), 8U);
}

TEST(RngState, EveryDeviceDrawsItsOwnNumbersTheSameInEveryRunOfOneSeed) {
  const Devices devices(3);
  seed_generators(42, 0, &devices);
  const auto first = devices.draw();
  seed_generators(42, 0, &devices);
  EXPECT_EQ(devices.draw(), first);
  EXPECT_EQ(std::set(first.begin() + 1, first.end()).size(), 3U);
  seed_generators(43, 0, &devices);
  EXPECT_NE(devices.draw(), first);
}

TEST(RngState, DevicesOfOneProcessDrawWhatAsManyRanksWould) {
  const Devices one(1), two(2);
  seed_generators(42, 1, &one);
  const auto rank_1 = one.draw();
  seed_generators(42, 0, &two);
  EXPECT_EQ(two.draw()[2], rank_1[1]);
}

TEST(RngState, SetsEveryDeviceBack) {
  const Devices devices(3);
  seed_generators(42, 0, &devices);
  devices.draw();
  const auto state = rng_state(&devices);
  std::vector<std::string> names;
  for (const auto& [name, value] : state) names.push_back(name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("cpu", "device", "device_1", "device_2"));
  const auto next = devices.draw();
  EXPECT_NE(devices.draw(), next);
  set_rng_state(state, &devices);
  EXPECT_EQ(devices.draw(), next);
}

TEST(RngState, ADeviceWithoutAnEntryKeepsItsOwn) {
  const Devices one(1), two(2);
  seed_generators(7, 0, &two);
  const auto expected = two.draw();
  seed_generators(7, 0, &two);
  set_rng_state(rng_state(&one), &two);
  EXPECT_EQ(two.draw()[2], expected[2]);
}

}  // namespace
}  // namespace ddprun

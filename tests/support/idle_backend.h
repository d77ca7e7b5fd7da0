// SPDX-License-Identifier: MIT
// A GPU that is none: it has nothing but its place among the ranks' GPUs.
#pragma once

#include "device/device_backend.h"
#include "imaging/image_batcher.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::testing {

class IdleBackend : public DeviceBackend {
 public:
  struct Calls {
    std::function<void()> grouping;                             // when the process group is made
    std::function<void()> connecting;                           // in connect()
    std::function<void()> group_is_gone;                        // in its destructor
    std::function<void(std::chrono::milliseconds)> timing_out;  // when it is given another timeout
  };

  explicit IdleBackend(std::string identity, Calls calls = {})
      : identity_(std::move(identity)), calls_(std::move(calls)) {}

  std::vector<c10::Device> devices() const override { return {c10::Device(c10::kCUDA, 0)}; }
  std::string description() const override { return "idle GPU"; }
  std::string identity() const override { return identity_; }

  c10::intrusive_ptr<c10d::Backend> make_group_backend(const c10::intrusive_ptr<c10d::Store>&, int64_t rank,
                                                       int64_t size, double) override {
    if (calls_.grouping) calls_.grouping();
    return c10::make_intrusive<Group>(static_cast<int>(rank), static_cast<int>(size), calls_);
  }

  void connect(c10d::Backend&) override {
    if (calls_.connecting) calls_.connecting();
  }

  at::Generator generator(c10::Device) const override { return {}; }
  FlightRecord flight_record() const override { return {}; }
  void synchronize() override {}
  std::unique_ptr<DeviceTimer> make_timer() const override { return nullptr; }
  std::unique_ptr<DeviceGraph> capture(const GraphWork&) override { return nullptr; }
  DeviceUsage usage() override { return {}; }
  void release_memory() override {}
  DeviceMemory memory() const override { return {}; }
  std::unique_ptr<ImageBatcher> hold_images(const ImageSource&, const ImageForm&) override { return nullptr; }

 private:
  class Group final : public c10d::Backend {
   public:
    Group(int rank, int size, Calls calls) : Backend(rank, size), calls_(std::move(calls)) {}
    ~Group() override {
      if (calls_.group_is_gone) calls_.group_is_gone();
    }
    void setTimeout(std::chrono::milliseconds timeout) override {
      if (calls_.timing_out) calls_.timing_out(timeout);
    }
    const std::string getBackendName() const override { return "idle"; }

   private:
    Calls calls_;
  };

  std::string identity_;
  Calls calls_;
};

}  // namespace ddprun::testing

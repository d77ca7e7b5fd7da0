// SPDX-License-Identifier: MIT
// A device that records and replays, made of the CPU: what a GPU would do again, it does again. Nothing is done while it records;
// results go to the same memory each time, as a graph's do.
#pragma once

#include "dist/device_backend.h"
#include "imaging/image_batcher.h"

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace ddprun::testing {

class ReplayingBackend final : public DeviceBackend {
 public:
  // Its recordings fail with this text from the `first_failing`-th on.
  explicit ReplayingBackend(int64_t first_failing = -1) : left_(first_failing) {}

  std::vector<c10::Device> devices() const override { return {}; }
  std::string description() const override { return "replaying"; }
  c10::intrusive_ptr<c10d::Backend> make_group_backend(const c10::intrusive_ptr<c10d::Store>&, int64_t, int64_t,
                                                       double) override {
    return nullptr;
  }
  at::Generator generator(c10::Device) const override { return {}; }
  FlightRecord flight_record() const override { return {}; }
  void synchronize() override {}
  std::unique_ptr<DeviceTimer> make_timer() const override { return nullptr; }
  DeviceUsage usage() override { return {}; }
  void release_memory() override {}
  int64_t free_bytes() const override { return 0; }
  std::unique_ptr<ImageBatcher> hold_images(const ImageSource&, const ImageForm&) override { return nullptr; }

  std::unique_ptr<DeviceGraph> record(const std::function<std::vector<at::Tensor>()>& work) override {
    if (left_-- == 0) throw std::runtime_error("this device cannot record\nand tells more");
    return std::make_unique<Graph>(work);
  }

 private:
  class Graph final : public DeviceGraph {
   public:
    explicit Graph(std::function<std::vector<at::Tensor>()> work) : work_(std::move(work)) {}

    void replay() override {
      const auto made = work_();
      if (results_.empty()) {
        for (const auto& tensor : made) results_.push_back(at::empty_like(tensor));
      }
      for (size_t i = 0; i < made.size(); ++i) results_[i].copy_(made[i]);
    }

    const std::vector<at::Tensor>& results() const override { return results_; }

   private:
    std::function<std::vector<at::Tensor>()> work_;
    std::vector<at::Tensor> results_;
  };

  int64_t left_;
};

}  // namespace ddprun::testing

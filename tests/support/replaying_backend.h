// SPDX-License-Identifier: MIT
// A device that captures and replays, made of the CPU: what a GPU would do again, it does again. Nothing is done while
// it captures; results go to the same memory each time, as a graph's do.
#pragma once

#include "device/device_backend.h"
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
  static constexpr int64_t kMemory = 100;  // bytes

  // Its `first_failing`-th capture fails with this text; each takes so much of the memory.
  explicit ReplayingBackend(int64_t first_failing = -1, int64_t bytes_of_a_graph = 0)
      : left_(first_failing), bytes_of_a_graph_(bytes_of_a_graph) {}

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
  DeviceMemory memory() const override { return {.free = kMemory - taken_, .reserved = taken_}; }
  std::unique_ptr<ImageBatcher> hold_images(const ImageSource&, const ImageForm&) override { return nullptr; }

  std::unique_ptr<DeviceGraph> capture(const GraphWork& work) override {
    if (left_-- == 0) throw std::runtime_error("this device cannot capture\nand tells more");
    return std::make_unique<Graph>(work, taken_, bytes_of_a_graph_);
  }

 private:
  class Graph final : public DeviceGraph {
   public:
    Graph(GraphWork work, int64_t& taken, int64_t bytes) : work_(std::move(work)), taken_(taken), bytes_(bytes) {
      taken_ += bytes_;
    }
    ~Graph() override { taken_ -= bytes_; }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    void replay(const std::function<void(int64_t part)>& before_part) override {
      int64_t part = 0;
      const auto begin_part = [&] {
        if (before_part) before_part(part++);
      };
      begin_part();
      const auto made = work_(begin_part);
      if (results_.empty()) {
        for (const auto& tensor : made) results_.push_back(at::empty_like(tensor));
      }
      for (size_t i = 0; i < made.size(); ++i) results_[i].copy_(made[i]);
    }

    const std::vector<at::Tensor>& results() const override { return results_; }

   private:
    GraphWork work_;
    std::vector<at::Tensor> results_;
    int64_t& taken_;
    int64_t bytes_;
  };

  int64_t left_, bytes_of_a_graph_, taken_ = 0;
};

}  // namespace ddprun::testing

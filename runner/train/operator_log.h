// SPDX-License-Identifier: MIT
// What a piece of work asks of LibTorch: its operators in their order, with the shapes of their tensors and all their
// numbers. Work that was captured once and is replayed does the same again and again, so what it asks must not change
// from time to time: a number of the host that does, as a rate or a count of steps, would stay what it was.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class OperatorLog {
 public:
  // Of work on `device`: a number that lies in a CPU's tensor is one of the host where that is a GPU.
  explicit OperatorLog(c10::Device device) : device_(device) {}

  // While it is there, what its thread asks of LibTorch is added, in backward passes too. Without a log it does
  // nothing.
  class Listening {
   public:
    explicit Listening(OperatorLog* log);
    ~Listening();
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

   private:
    class Guard;
    std::unique_ptr<Guard> guard_;
  };

  bool empty() const { return entries_.empty(); }
  const std::vector<std::string>& entries() const { return entries_; }

  // The operator for which the host waited for the device; empty: none.
  const std::string& wait() const { return wait_; }

  // Where `later` asks for something else, as "aten::mul(float[8], 0.2), which was aten::mul(float[8], 0.1)"; empty:
  // nowhere.
  std::string difference(const OperatorLog& later) const;

 private:
  c10::Device device_;
  std::vector<std::string> entries_;
  std::string wait_;
};

}  // namespace ddprun

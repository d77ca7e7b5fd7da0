// SPDX-License-Identifier: MIT
// Records the LibTorch operators of a piece of work in their order, with the shapes of their tensors and all their
// numbers. Captured work repeats exactly, so its operators must not change from step to step: a number of the host that
// does, such as an lr or a count of steps, would keep its old value.
#pragma once

#include "step/operator_listener.h"

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace ddprun {

class OperatorLog final : public OperatorListener {
 public:
  // Logs work on `device`: if that is not the CPU, a number in a CPU tensor counts as the host's. Its value is logged
  // where a kernel of the device reads it, and how often it was written where an operator writes it.
  explicit OperatorLog(c10::Device device) : device_(device) {}

  std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& call) override;

  bool empty() const { return entries_.empty(); }
  const std::vector<std::string>& entries() const { return entries_; }

  // Returns the operator for which the host waited for the device; empty if it did not.
  const std::string& wait() const { return wait_; }

  // Returns the first difference to `later`, as "aten::mul(float[8], 0.2), which was aten::mul(float[8], 0.1)"; empty
  // if there is none.
  std::string difference(const OperatorLog& later) const;

 private:
  c10::Device device_;
  std::vector<std::string> entries_;
  std::string wait_;
};

}  // namespace ddprun

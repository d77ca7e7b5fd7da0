// SPDX-License-Identifier: MIT
// Counts the floating-point operations of a model's forward and backward passes, of which MFU is made.
//
// Counted are matrix products, convolutions, attention and recurrent layers, a multiplication and an addition as two,
// from the sizes that the operators get: what LibTorch really runs, whatever the model. The rest is not: it is limited
// by memory. Attention counts all pairs of its symbols, masked ones too, as the field does. What a kernel or
// trainer.recompute computes again in backward does not count.
#pragma once

#include "step/operator_listener.h"

#include <cstdint>
#include <set>

namespace ddprun {

class FlopCount final : public OperatorListener {
 public:
  std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& call) override;
  void ended(const at::RecordFunction& call, at::ObserverContext& of_begun) override;

  // Says what comes next: forward or backward of so many samples.
  void begin_forward(int64_t samples);
  void begin_backward() { in_backward_ = true; }

  double flops() const { return flops_; }
  int64_t samples() const { return samples_; }
  bool has_convolutions() const { return has_convolutions_; }

 private:
  double flops_ = 0;
  int64_t samples_ = 0;
  bool in_backward_ = false, has_convolutions_ = false;
  std::set<uint64_t> within_;  // threads within an operator that is counted, with all that it calls
};

}  // namespace ddprun

// SPDX-License-Identifier: MIT
// Writes the loss of each step into the rank's log, so it is read on the host.
#include <ddprun/callback.h>

#include <cstdio>

namespace {

class LossReader final : public ddprun::Callback {
 public:
  explicit LossReader(ddprun::Options& /*options*/) {}

  ddprun::Requests after_step(const ddprun::StepDone& step) override {
    std::fprintf(stderr, "loss_reader: step %lld: %a\n", static_cast<long long>(step.step), step.loss.item<double>());
    return {};
  }
};

}  // namespace

DDPRUN_CALLBACK(LossReader, "loss_reader", "reads the loss of each step")

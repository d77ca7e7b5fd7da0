// SPDX-License-Identifier: MIT
// Averages gradients over two ranks for those who step with them: each gets the mean of its own parameters alone. That
// is half of an all-reduce, with the same bits: a sum of two has no order. Of more ranks it has one, which belongs to
// the algorithm of Gloo or NCCL; those all-reduce, or add shards (comm/shard_exchange.h).
#pragma once

#include "comm/side_stream.h"

#include <ddprun/optimizer.h>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace ddprun {

class OwnerExchange final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  // `owners` are the ranks, 0 or 1, that these parameters belong to.
  OwnerExchange(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::vector<NamedParameter>& parameters,
                const std::vector<int64_t>& owners);

  // In a whole step each rank gets all gradients, as without owners; the same on both.
  void start(bool whole) { whole_ = whole; }

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;

 private:
  // A bucket's gradients: this rank's, with what the other adds to them, and what the other one gets.
  struct Halves {
    std::vector<at::Tensor> own, added;
    at::Tensor received, sent;
  };
  Halves halves(const c10d::GradBucket& bucket) const;
  c10::intrusive_ptr<c10d::Work> exchange(Halves& halves) const;

  std::unordered_map<const c10::TensorImpl*, int64_t> owners_;
  bool whole_ = false;
  SideStream stream_;
};

}  // namespace ddprun

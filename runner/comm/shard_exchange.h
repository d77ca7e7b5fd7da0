// SPDX-License-Identifier: MIT
// Adds the gradients of a global batch's shards in the order of a ShardTree: each rank those of its own, one after the
// other, then all ranks together, bucket by bucket while backward is still running.
//
// The additions are the same for every number of ranks. So are the results' bits, but for the sign of a zero, which
// shards without a gradient may change: no sum of all shards has a negative zero.
#pragma once

#include "base/world.h"
#include "comm/shard_tree.h"
#include "comm/side_stream.h"

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {

// Gradients of all parameters in their order; undefined where there is none.
using Gradients = std::vector<at::Tensor>;

// Makes positive zeros of negative ones.
void drop_negative_zeros(const at::TensorList& tensors);

// The gradients of one rank's parts of a step, while they are added up. The newest sum lies in the parameters'
// gradients, where backward adds the next part's to it; earlier ones wait here. Without a plan each part is added to
// those before it, and none waits.
class PartSums {
 public:
  explicit PartSums(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}

  // Starts a step: one entry for each part, or no plan. Forgets what an interrupted one has left.
  void start(const AddPlan& plan);

  // Sets the sum in the parameters' gradients aside, unless the next part's gradients are added to that.
  void before_part();

  // Gives a parameter a gradient of zeros, to which the next part's is added, if only sums that wait have one.
  void fill_gaps() const;

  // Adds what waits as the plan says of the part that has run. For the last one the exchange may do it instead.
  void after_part();

  // Ends a step whose sum is not exchanged.
  void finish() const;

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  // Return the sums that wait, in the order in which they were made, and how many of the last ones are added to the
  // newest sum after the part that runs.
  const std::vector<Gradients>& waiting() const { return waiting_; }
  int64_t additions() const { return plan_.empty() ? 0 : std::max<int64_t>(0, plan_[part_] - 1); }

 private:
  Gradients taken() const;

  std::vector<at::Tensor> parameters_;
  AddPlan plan_;
  size_t part_ = 0;     // that runs, or is the next
  bool began_ = false;  // a part
  std::vector<Gradients> waiting_;
};

// The exchange of a bucket's sums: every rank sends to each rank its sums of that one's chunk; that one adds all ranks'
// in the order of the tree and sends the result to all. Each of the two is an all-to-all, straight out of the bucket
// where a rank has a single sum, and straight into it. A small bucket's chunks are all of it, in one round: every rank
// adds all ranks' sums, which takes less time than waiting twice. Where each parameter's gradient is needed by its
// owner alone, the result is sent to that one: a reduce-scatter in chunks that load all links alike, whichever the
// owners are.
//
// c10d calls it in backward, for one bucket after the other. A large one is exchanged in pieces, because what is
// received takes as much memory. Meanwhile the piece before is under way: its sums are added and sent when the next one
// comes, so that all ranks issue their collectives in one order.
class ShardExchange final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  // `sums` outlives it. `owners` are the ranks that need the parameters' gradients, in their order; empty: all do.
  ShardExchange(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const PartSums& sums, std::vector<int64_t> owners);

  // Exchanges this tree's sums from now on. Forgets what an interrupted step has left. In a whole step all ranks get
  // all gradients, as without owners.
  void start(std::shared_ptr<const ShardTree> tree, bool whole);

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  // Elements that lie one after the other and have one owner.
  struct Run {
    Slice elements;
    int64_t owner = 0;
  };
  struct Coming {
    at::Tensor place, numbers;
  };

  struct Exchange {
    at::Tensor piece;
    std::vector<Run> runs;        // of the piece; empty: all ranks get all of it
    at::Tensor* received;         // all ranks' sums of this rank's chunk, then the result, once for each rank
    std::function<void()> ended;  // null but for a bucket's last piece
    std::vector<Work> works;
    std::vector<at::Tensor> copies;  // of this rank's sums, one for each rank, if there is one round
    std::vector<Coming> coming;      // results of which this rank is the owner
    bool added = false;
  };

  bool in_one_round(const at::Tensor& piece) const;
  std::vector<int64_t> chunks(const at::Tensor& piece) const;
  std::vector<at::Tensor> own_sums(const c10d::GradBucket& bucket, at::Tensor& memory) const;
  std::vector<Run> runs_of(const c10d::GradBucket& bucket) const;
  void start_piece(const at::Tensor& bucket, Slice elements, const std::vector<at::Tensor>& sums,
                   const std::vector<Run>& runs, std::function<void()> ended);
  void send_sums(Exchange& exchange, const std::vector<at::Tensor>& sums) const;
  void add_and_send(Exchange& exchange) const;
  void send_to_all(Exchange& exchange, const at::Tensor& result) const;
  void send_to_owners(Exchange& exchange, const at::Tensor& result) const;
  void end_first();

  const PartSums& sums_;
  std::vector<int64_t> owners_;
  bool whole_ = false;
  std::shared_ptr<const ShardTree> tree_;
  std::vector<std::vector<int64_t>> turns_;  // the ranks that send a first sum, a second one ...
  std::vector<int64_t> slots_;               // where each sum lies among those received, in the order of ranks
  std::unordered_map<const c10::TensorImpl*, size_t> places_;  // of the parameters
  // Memory that pieces and buckets use by turns, since two may be under way; `sent_` has this rank's sums but the last.
  std::array<at::Tensor, 2> received_, sent_;
  size_t pieces_ = 0;  // so far
  std::deque<Exchange> under_way_;
  SideStream stream_;
};

}  // namespace ddprun

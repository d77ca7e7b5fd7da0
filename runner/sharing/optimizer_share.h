// SPDX-License-Identifier: MIT
// Shares the optimizer among the ranks (trainer.shard_optimizer): each steps some of the parameters, keeps their state
// and averages alone, and gets the others' new weights. This is stage 1 of ZeRO (Rajbhandari et al.: "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models", 2020), but for whole parameters: the gradients are averaged
// as always, so that every bit is as without.
//
// With a single rank, or without the key, every rank has all parameters. Used from the training thread.
#pragma once

#include "comm/communicator.h"

#include <ddprun/arriving_weights.h>
#include <ddprun/optimizer.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {

// Returns the parts of a started optimizer's step. Throws UserError if the step has none, because it needs all
// parameters at once, and PluginMistake if they are not all parameters, each in one of them, or have no costs.
std::vector<StepPart> parts_to_share(const Optimizer& optimizer);

// Which rank has which parameters.
struct Deal {
  std::map<std::string, int64_t, std::less<>> owners;  // ranks by parameter
  std::vector<int64_t> numbers;                        // of each rank's parameters that ever train
  double largest() const;                              // the most numbers of a rank, as a share of all
};

// Deals a started optimizer's parameters out to this many ranks, so that none has much more than its share of the
// step's cost and of the numbers. `trains` returns whether a parameter ever has a gradient: others cost nothing. The
// same arguments give the same everywhere. Throws as parts_to_share().
using Trains = std::function<bool(const std::string& parameter)>;
Deal deal_out(const Optimizer& optimizer, int64_t ranks, const Trains& trains);

// Weights on their way from their own rank to all others. They must not be changed until all have arrived, and be read
// only once they have.
class SpreadWeights final : public ArrivingWeights {
 public:
  void wait_for(const at::Tensor& weight) override;
  void wait_for_all();

  // Has these be called before and after each wait.
  void around_waits(std::function<void()> before, std::function<void()> after) {
    before_ = std::move(before);
    after_ = std::move(after);
  }

 private:
  friend class OptimizerShare;

  struct Piece {
    int64_t owner = 0;
    std::vector<at::Tensor> tensors;  // of one type
    int64_t bytes = 0;
  };
  struct Transfer {
    Piece piece;
    PendingTensor numbers;
    bool is_own = false;  // sent by this rank
    bool has_ended = false;
  };

  void end(Transfer& transfer) const;
  static void receive(Transfer& transfer);

  std::vector<Transfer> transfers_;
  std::unordered_map<const c10::TensorImpl*, size_t> coming_;  // which transfer brings a weight
  std::function<void()> before_, after_;                       // may be null
};

class OptimizerShare {
 public:
  OptimizerShare() = default;  // every rank has all parameters

  // Shares a started optimizer among the communicator's ranks, as rank 0 deals it out. The communicator outlives it.
  // Collective. Throws as deal_out().
  OptimizerShare(const Optimizer& optimizer, Communicator& communicator, const Trains& trains);

  bool is_shared() const { return communicator_ != nullptr; }

  bool is_own(const std::string& parameter) const;
  std::vector<NamedParameter> own(std::vector<NamedParameter> parameters) const;

  // Returns the optimizer's entries of this rank's parameters.
  OptimizerState own(const OptimizerState& whole) const;

  // Returns each parameter's rank.
  std::vector<int64_t> owners(const std::vector<NamedParameter>& parameters) const;

  // Drops the gradients of the other ranks' parameters: the optimizer leaves those alone.
  void drop_others_gradients(const std::vector<NamedParameter>& parameters) const;

  // Fills the other ranks' parameters with NaN, so that a reader of what has not come shows it.
  void poison_others(const std::vector<NamedParameter>& parameters) const;

  // Returns what all ranks have, float32 scalars on one device: own[i] of the next parameter that is this rank's, for
  // each of `parameters` in their order. Collective.
  std::vector<at::Tensor> of_all(const std::vector<at::Tensor>& own,
                                 const std::vector<NamedParameter>& parameters) const;

  // Begins to give all ranks the weights that these parameters have on their own rank. Collective.
  [[nodiscard]] std::unique_ptr<SpreadWeights> start_spreading(const std::vector<NamedParameter>& parameters) const;
  void spread(const std::vector<NamedParameter>& parameters) const { start_spreading(parameters)->wait_for_all(); }

  // Returns "trainer.shard_optimizer: 4 workers share the optimizer's step and state: ...".
  std::string text() const;

 private:
  using Piece = SpreadWeights::Piece;

  std::vector<Piece> pieces(const std::vector<NamedParameter>& parameters) const;
  at::Tensor joined(const Piece& piece) const;

  Communicator* communicator_ = nullptr;  // null: not shared
  Deal deal_;
};

}  // namespace ddprun

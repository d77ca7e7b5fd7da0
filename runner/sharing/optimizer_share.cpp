// SPDX-License-Identifier: MIT
#include "sharing/optimizer_share.h"

#include "base/log.h"
#include "base/terminal.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace ddprun {
namespace {

std::map<std::string, int64_t> numbers_by_name(const Optimizer& optimizer) {
  std::map<std::string, int64_t> numbers;
  for (const auto& group : optimizer.groups()) {
    for (const auto& parameter : group.parameters) numbers[parameter.name] = parameter.value.numel();
  }
  return numbers;
}

// The largest parts first, each to the rank that has the least so far, of both cost and numbers in shares of the whole.
std::vector<size_t> owners_of(const std::vector<double>& costs, const std::vector<int64_t>& numbers, int64_t ranks) {
  const auto cost = std::max(std::reduce(costs.begin(), costs.end()), std::numeric_limits<double>::min());
  const auto count = static_cast<double>(std::max<int64_t>(std::reduce(numbers.begin(), numbers.end()), 1));
  std::vector<double> share(costs.size());
  for (size_t i = 0; i < costs.size(); ++i) share[i] = costs[i] / cost + static_cast<double>(numbers[i]) / count;
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t part) { return share[part]; });
  std::vector<double> load(static_cast<size_t>(ranks), 0);
  std::vector<size_t> owners(costs.size());
  for (const auto part : order) {
    const auto least = std::ranges::min_element(load);
    *least += share[part];
    owners[part] = static_cast<size_t>(least - load.begin());
  }
  return owners;
}

// Returns all numbers in one dimension: a tensor's own where it is dense, in the order of memory, else copies.
at::Tensor flat(const at::Tensor& tensor) {
  const auto values = tensor.detach();
  return values.is_non_overlapping_and_dense() ? values.as_strided({values.numel()}, {1})
                                               : values.contiguous().view({-1});
}

void copy_flat(const at::Tensor& numbers, const at::Tensor& tensor) {
  const auto values = tensor.detach();
  values.is_non_overlapping_and_dense() ? flat(values).copy_(numbers) : values.copy_(numbers.view(values.sizes()));
}

}  // namespace

std::vector<StepPart> parts_to_share(const Optimizer& optimizer) {
  auto parts = in_plugin({"optimizer", "step_parts"}, [&] { return optimizer.step_parts(); });
  if (parts.empty())
    throw UserError(
        "trainer.shard_optimizer: this optimizer's step needs all parameters at once, so that the workers cannot share "
        "it. sgd, adam, adamw and muon can be shared; one of your own returns its parts from step_parts()");
  auto missing = numbers_by_name(optimizer);
  for (const auto& part : parts) {
    if (!std::isfinite(part.cost) || part.cost < 0)
      throw PluginMistake({"optimizer", log::text("step_parts() gives a cost of ", part.cost,
                                                  ": expected a finite number that is not negative")});
    for (const auto& name : part.parameters) {
      if (missing.erase(name) == 0)
        throw PluginMistake({"optimizer", "step_parts() has " + name +
                                              " twice, or it is no parameter: expected each parameter in one part"});
    }
  }
  if (!missing.empty())
    throw PluginMistake(
        {"optimizer", "step_parts() lacks " + missing.begin()->first + ": expected each parameter in one part"});
  return parts;
}

double Deal::largest() const {
  const auto all = std::reduce(numbers.begin(), numbers.end());
  return all == 0 ? 0 : static_cast<double>(std::ranges::max(numbers)) / static_cast<double>(all);
}

Deal deal_out(const Optimizer& optimizer, int64_t ranks, const Trains& trains) {
  const auto parts = parts_to_share(optimizer);
  const auto all = numbers_by_name(optimizer);
  std::vector<double> costs;
  std::vector<int64_t> numbers;
  for (const auto& part : parts) {
    int64_t& count = numbers.emplace_back(0);
    for (const auto& name : part.parameters) count += trains(name) ? all.at(name) : 0;
    costs.push_back(count > 0 ? part.cost : 0);
  }
  Deal deal;
  deal.numbers.resize(static_cast<size_t>(ranks));
  const auto owners = owners_of(costs, numbers, ranks);
  for (size_t i = 0; i < parts.size(); ++i) {
    deal.numbers[owners[i]] += numbers[i];
    for (const auto& name : parts[i].parameters) deal.owners[name] = static_cast<int64_t>(owners[i]);
  }
  return deal;
}

// Rank 0's deal counts: costs are a plugin's, and may be rounded otherwise on another machine.
OptimizerShare::OptimizerShare(const Optimizer& optimizer, Communicator& communicator, const Trains& trains)
    : communicator_(communicator.is_distributed() ? &communicator : nullptr),
      deal_(deal_out(optimizer, communicator.world().size, trains)) {
  auto owners = at::empty({std::ssize(deal_.owners)}, at::kLong);
  auto* next = owners.mutable_data_ptr<int64_t>();
  for (const auto& [name, owner] : deal_.owners) *next++ = owner;
  communicator.broadcast({owners});
  next = owners.mutable_data_ptr<int64_t>();
  for (auto& [name, owner] : deal_.owners) owner = *next++;
}

bool OptimizerShare::is_own(const std::string& parameter) const {
  return !is_shared() || deal_.owners.at(parameter) == communicator_->world().rank;
}

std::vector<NamedParameter> OptimizerShare::own(std::vector<NamedParameter> parameters) const {
  std::erase_if(parameters, [this](const NamedParameter& parameter) { return !is_own(parameter.name); });
  return parameters;
}

// An entry is "<parameter>/<what>", and a parameter's name may have a slash.
OptimizerState OptimizerShare::own(const OptimizerState& whole) const {
  auto own = whole;
  if (!is_shared()) return own;
  std::erase_if(own, [this](const auto& entry) {
    const std::string& name = entry.first;
    for (auto slash = name.rfind('/'); slash != name.npos && slash > 0; slash = name.rfind('/', slash - 1)) {
      const auto owner = deal_.owners.find(std::string_view(name).substr(0, slash));
      if (owner != deal_.owners.end()) return owner->second != communicator_->world().rank;
    }
    return false;  // of no parameter: load_state() says so
  });
  return own;
}

std::vector<int64_t> OptimizerShare::owners(const std::vector<NamedParameter>& parameters) const {
  std::vector<int64_t> owners;
  for (const auto& parameter : parameters) owners.push_back(deal_.owners.at(parameter.name));
  return owners;
}

// What is added to an other rank's number is 0.
void OptimizerShare::poison_others(const std::vector<NamedParameter>& parameters) const {
  const at::NoGradGuard no_gradients;
  for (const auto& [name, value] : parameters)
    if (!is_own(name)) value.detach().fill_(std::numeric_limits<double>::quiet_NaN());
}

std::vector<at::Tensor> OptimizerShare::of_all(const std::vector<at::Tensor>& own,
                                               const std::vector<NamedParameter>& parameters) const {
  if (parameters.empty()) return {};
  const auto nothing = at::zeros({}, parameters.front().value.options().dtype(at::kFloat).requires_grad(false));
  std::vector<at::Tensor> mine;
  for (auto next = own.begin(); const auto& parameter : parameters)
    mine.push_back(is_own(parameter.name) ? *next++ : nothing);
  return communicator_->start_sum(at::stack(mine)).take().unbind();
}

void OptimizerShare::drop_others_gradients(const std::vector<NamedParameter>& parameters) const {
  for (const auto& parameter : parameters) {
    if (!is_own(parameter.name)) parameter.value.mutable_grad().reset();
  }
}

// Small weights travel together, large ones as they lie. The ranks' pieces take turns, so that all send at once.
std::vector<SpreadWeights::Piece> OptimizerShare::pieces(const std::vector<NamedParameter>& parameters) const {
  constexpr int64_t kPieceBytes = int64_t{4} << 20;
  std::map<std::pair<int64_t, at::ScalarType>, Piece> open;
  std::vector<std::vector<Piece>> of_ranks(static_cast<size_t>(communicator_->world().size));
  const auto close = [&](Piece piece) { of_ranks[static_cast<size_t>(piece.owner)].push_back(std::move(piece)); };
  for (const auto& [name, value] : parameters) {
    const auto owner = deal_.owners.at(name), bytes = static_cast<int64_t>(value.nbytes());
    if (bytes >= kPieceBytes) {
      close({owner, {value}, bytes});
      continue;
    }
    auto& piece = open[{owner, value.scalar_type()}];
    piece.owner = owner;
    piece.tensors.push_back(value);
    piece.bytes += bytes;
    if (piece.bytes >= kPieceBytes) close(std::exchange(piece, {}));
  }
  for (auto& [of, piece] : open) {
    if (!piece.tensors.empty()) close(std::move(piece));
  }
  std::vector<Piece> all;
  for (size_t turn = 0; std::ranges::any_of(of_ranks, [&](const auto& own) { return turn < own.size(); }); ++turn) {
    for (auto& own : of_ranks) {
      if (turn < own.size()) all.push_back(std::move(own[turn]));
    }
  }
  return all;
}

// Returns a piece's numbers in one tensor: those of a single dense weight themselves.
at::Tensor OptimizerShare::joined(const Piece& piece) const {
  if (piece.tensors.size() == 1) return flat(piece.tensors.front());
  std::vector<at::Tensor> numbers;
  for (const auto& tensor : piece.tensors) numbers.push_back(flat(tensor));
  return at::cat(numbers);
}

// No operator of the step: with it, steps would differ by whether somebody has read all weights before them.
std::unique_ptr<SpreadWeights> OptimizerShare::start_spreading(const std::vector<NamedParameter>& parameters) const {
  auto weights = std::make_unique<SpreadWeights>();
  if (!is_shared()) return weights;
  const torch::NoGradGuard no_gradients;
  const at::DisableRecordFunctionGuard unseen;
  for (auto& piece : pieces(parameters)) {
    auto numbers = joined(piece);
    const bool is_own = piece.owner == communicator_->world().rank;
    for (const auto& tensor : piece.tensors)
      if (!is_own) weights->coming_[tensor.unsafeGetTensorImpl()] = weights->transfers_.size();
    auto pending = communicator_->start_broadcast(std::move(numbers), piece.owner);
    weights->transfers_.push_back({.piece = std::move(piece), .numbers = std::move(pending), .is_own = is_own});
  }
  return weights;
}

void SpreadWeights::wait_for(const at::Tensor& weight) {
  if (const auto found = coming_.find(weight.unsafeGetTensorImpl()); found != coming_.end())
    end(transfers_[found->second]);
}

void SpreadWeights::wait_for_all() {
  for (auto& transfer : transfers_) end(transfer);
}

void SpreadWeights::end(Transfer& transfer) const {
  if (std::exchange(transfer.has_ended, true)) return;
  if (before_) before_();
  receive(transfer);
  if (after_) after_();
}

void SpreadWeights::receive(Transfer& transfer) {
  const torch::NoGradGuard no_gradients;
  const at::DisableRecordFunctionGuard unseen;
  const auto numbers = transfer.numbers.take();
  const auto& tensors = transfer.piece.tensors;
  const bool in_place = tensors.size() == 1 && tensors.front().is_non_overlapping_and_dense();
  if (transfer.is_own || in_place) return;
  int64_t begin = 0;
  for (const auto& tensor : tensors) {
    copy_flat(numbers.narrow(0, begin, tensor.numel()), tensor);
    begin += tensor.numel();
  }
}

std::string OptimizerShare::text() const {
  if (!is_shared()) return "trainer.shard_optimizer: a single worker steps all parameters and keeps all their state";
  const auto [least, most] = std::ranges::minmax(deal_.numbers);
  const auto all = std::reduce(deal_.numbers.begin(), deal_.numbers.end());
  return log::text("trainer.shard_optimizer: ", deal_.numbers.size(),
                   " workers share the optimizer's step and state: ", least == most ? "" : grouped(least) + " to ",
                   grouped(most), " of ", grouped(all), " numbers each");
}

}  // namespace ddprun

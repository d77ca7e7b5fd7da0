// SPDX-License-Identifier: MIT
#include "comm/shard_exchange.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace ddprun {
namespace {

constexpr int64_t kOneRound = int64_t{1} << 20;  // bytes of all ranks' sums of a piece
constexpr int64_t kPiece = int64_t{6} << 20;     // most bytes

// Adds those of `from` that are there to those of `to`, which takes them over where it has none.
void add_to(Gradients& to, const Gradients& from) {
  std::vector<at::Tensor> sums, added;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!from[i].defined()) continue;
    if (!to[i].defined()) {
      to[i] = from[i];
      continue;
    }
    sums.push_back(to[i]);
    added.push_back(from[i]);
  }
  if (!sums.empty()) at::_foreach_add_(sums, added);
}

// Returns memory of at least so many elements, which it keeps in `space`. A whole batch needs the most, so that what a
// captured step of it knows is not replaced.
at::Tensor room(at::Tensor& space, int64_t elements, const at::Tensor& like) {
  const bool fits = space.defined() && space.numel() >= elements && space.scalar_type() == like.scalar_type();
  if (!fits) space = at::empty({elements}, like.options());
  return space.narrow(0, 0, elements);
}

// Returns the parameters' gradients in memory that is laid out as the bucket. As c10d does, each has its parameter's
// strides; GradBucket::getGradients() is for those that are contiguous.
Gradients views_of(const at::Tensor& memory, const c10d::GradBucket& bucket) {
  const auto parameters = bucket.getParameters();
  const auto in_bucket = bucket.getGradients();
  Gradients views;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& parameter = parameters[i];
    const auto begin = in_bucket[i].storage_offset() - bucket.getBuffer().storage_offset();
    const bool is_dense = parameter.is_non_overlapping_and_dense();
    const auto offset = memory.storage_offset() + begin;
    views.push_back(is_dense ? memory.as_strided(parameter.sizes(), parameter.strides(), offset)
                             : memory.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
  }
  return views;
}

// Returns what both have, which may be nothing.
Slice overlap(const Slice& one, const Slice& other) {
  const auto begin = std::max(one.begin, other.begin);
  return {begin, std::max(begin, std::min(one.end, other.end))};
}

}  // namespace

void drop_negative_zeros(const at::TensorList& tensors) {
  if (!tensors.empty()) at::_foreach_add_(tensors, 0);
}

void PartSums::start(const AddPlan& plan) {
  plan_ = plan;
  part_ = 0;
  began_ = false;
  waiting_.clear();
}

Gradients PartSums::taken() const {
  Gradients taken;
  for (const auto& parameter : parameters_) taken.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  return taken;
}

void PartSums::before_part() {
  if (plan_.empty()) return;
  if (std::exchange(began_, true)) ++part_;
  if (part_ > 0 && plan_[part_] == 0) waiting_.push_back(taken());
}

void PartSums::fill_gaps() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto has_it = [i](const Gradients& sum) { return sum[i].defined(); };
    if (parameters_[i].grad().defined() || std::ranges::none_of(waiting_, has_it)) continue;
    parameters_[i].mutable_grad() = at::zeros_like(parameters_[i].detach());
  }
}

void PartSums::after_part() {
  if (additions() == 0) return;
  const torch::NoGradGuard no_gradients;
  auto newest = taken();
  for (auto left = additions(); left > 0; --left) {
    add_to(waiting_.back(), newest);
    newest = std::move(waiting_.back());
    waiting_.pop_back();
  }
  for (size_t i = 0; i < newest.size(); ++i) parameters_[i].mutable_grad() = std::move(newest[i]);
}

void PartSums::finish() const {
  const torch::NoGradGuard no_gradients;
  Gradients sums;
  for (const auto& parameter : parameters_) {
    if (parameter.grad().defined()) sums.push_back(parameter.grad());
  }
  drop_negative_zeros(sums);
}

ShardExchange::ShardExchange(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const PartSums& sums,
                             std::vector<int64_t> owners)
    : CppCommHookInterface(group), sums_(sums), owners_(std::move(owners)) {
  const auto& parameters = sums.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) places_[parameters[i].unsafeGetTensorImpl()] = i;
}

// Ranks send their sums in turn, all their first ones together. What comes lies in the order of turns, then of ranks.
void ShardExchange::start(std::shared_ptr<const ShardTree> tree, bool whole) {
  under_way_.clear();
  whole_ = whole;
  pieces_ = 0;  // each step has the same memory for the same piece
  if (tree == tree_) return;
  tree_ = std::move(tree);
  turns_.clear();
  slots_.clear();
  for (int64_t rank = 0; rank < state_->getSize(); ++rank) {
    turns_.resize(std::max(turns_.size(), static_cast<size_t>(tree_->sums_of(rank))));
    for (int64_t turn = 0; turn < tree_->sums_of(rank); ++turn) turns_[static_cast<size_t>(turn)].push_back(rank);
  }
  for (int64_t rank = 0; rank < state_->getSize(); ++rank) {
    int64_t before = 0;
    for (int64_t turn = 0; turn < tree_->sums_of(rank); ++turn) {
      const auto& ranks = turns_[static_cast<size_t>(turn)];
      slots_.push_back(before + (std::ranges::find(ranks, rank) - ranks.begin()));
      before += static_cast<int64_t>(ranks.size());
    }
  }
}

bool ShardExchange::in_one_round(const at::Tensor& piece) const {
  return state_->getSize() * static_cast<int64_t>(piece.nbytes()) <= kOneRound;
}

// Returns how many of a piece's elements each rank adds: the last rank those that are left over, too.
std::vector<int64_t> ShardExchange::chunks(const at::Tensor& piece) const {
  const int64_t world = state_->getSize(), size = piece.numel();
  if (in_one_round(piece)) return std::vector<int64_t>(static_cast<size_t>(world), size);
  std::vector<int64_t> chunks(static_cast<size_t>(world), size / world);
  chunks.back() += size % world;
  return chunks;
}

// Returns this rank's sums in the bucket's layout. The last is the bucket, to which the newest of those that wait are
// added.
std::vector<at::Tensor> ShardExchange::own_sums(const c10d::GradBucket& bucket, at::Tensor& memory) const {
  if (tree_->sums_of(state_->getRank()) == 0) return {};  // what it has computed is another rank's
  const auto& flat = bucket.getBuffer();
  auto own = views_of(flat, bucket);
  const auto of_bucket = [&](const Gradients& all) {
    Gradients some;
    for (const auto& parameter : bucket.getParameters())
      some.push_back(all[places_.at(parameter.unsafeGetTensorImpl())]);
    return some;
  };
  const auto& waiting = sums_.waiting();
  const auto separate = waiting.size() - static_cast<size_t>(sums_.additions());
  for (auto i = waiting.size(); i-- > separate;) add_to(own, of_bucket(waiting[i]));
  std::vector<at::Tensor> sums;
  const auto size = flat.numel();
  const auto sent = room(memory, static_cast<int64_t>(separate) * size, flat);
  for (size_t i = 0; i < separate; ++i) {
    const auto& sum = sums.emplace_back(sent.narrow(0, static_cast<int64_t>(i) * size, size));
    const auto gradients = of_bucket(waiting[i]), places = views_of(sum, bucket);
    for (size_t p = 0; p < gradients.size(); ++p)
      gradients[p].defined() ? places[p].copy_(gradients[p]) : places[p].zero_();
  }
  sums.push_back(flat);
  return sums;
}

// Returns the bucket's elements by owner; nothing if all ranks get all of them.
std::vector<ShardExchange::Run> ShardExchange::runs_of(const c10d::GradBucket& bucket) const {
  std::vector<Run> runs;
  if (owners_.empty() || whole_) return runs;
  const auto gradients = bucket.getGradients();
  const auto parameters = bucket.getParameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto begin = gradients[i].storage_offset() - bucket.getBuffer().storage_offset();
    const auto owner = owners_[places_.at(parameters[i].unsafeGetTensorImpl())];
    runs.push_back({{begin, begin + parameters[i].numel()}, owner});
  }
  return runs;
}

c10::intrusive_ptr<c10::ivalue::Future> ShardExchange::runHook(c10d::GradBucket& bucket) {
  const torch::NoGradGuard no_gradients;
  const auto& flat = bucket.getBuffer();
  const auto device = flat.device();
  std::vector<c10::Device> devices;
  if (!device.is_cpu()) devices.push_back(device);
  const SideStream::Scope beside(stream_, device);
  const auto done = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::move(devices));
  const auto sums = own_sums(bucket, sent_[bucket.getIndex() % sent_.size()]);
  const auto runs = runs_of(bucket);
  const auto count = std::max<int64_t>(1, (static_cast<int64_t>(flat.nbytes()) + kPiece - 1) / kPiece);
  for (int64_t i = 0; i < count; ++i) {
    std::function<void()> ended;
    if (i + 1 == count) ended = [done, flat] { done->markCompleted(flat); };
    start_piece(flat, part_of(flat.numel(), i, count), sums, runs, std::move(ended));
  }
  const bool without_waiting = !device.is_cpu();  // the host, that is
  while (!under_way_.empty() && (without_waiting || bucket.isLast())) end_first();
  return done;
}

void ShardExchange::start_piece(const at::Tensor& bucket, Slice elements, const std::vector<at::Tensor>& sums,
                                const std::vector<Run>& runs, std::function<void()> ended) {
  std::vector<at::Tensor> parts;
  for (const auto& sum : sums) parts.push_back(sum.narrow(0, elements.begin, elements.size()));
  std::vector<Run> own_runs;
  for (const auto& [of_bucket, owner] : runs) {
    const auto here = overlap(of_bucket, elements);
    if (here.size() > 0) own_runs.push_back({{here.begin - elements.begin, here.end - elements.begin}, owner});
  }
  auto& exchange = under_way_.emplace_back(Exchange{.piece = bucket.narrow(0, elements.begin, elements.size()),
                                                    .runs = std::move(own_runs),
                                                    .received = &received_[pieces_++ % received_.size()],
                                                    .ended = std::move(ended)});
  while (under_way_.size() > 2) end_first();
  send_sums(exchange, parts);
  if (under_way_.size() > 1) add_and_send(under_way_.front());
}

void ShardExchange::send_sums(Exchange& exchange, const std::vector<at::Tensor>& sums) const {
  const auto world = static_cast<size_t>(state_->getSize());
  const bool whole = in_one_round(exchange.piece);
  auto chunk_of = chunks(exchange.piece);
  std::vector<int64_t> nothing(world, 0);
  const auto mine = chunk_of[static_cast<size_t>(state_->getRank())];
  const auto slots = static_cast<int64_t>(std::max(slots_.size(), world));
  const auto received = room(*exchange.received, slots * mine, exchange.piece);
  int64_t begin = 0;
  for (size_t turn = 0; turn < turns_.size(); ++turn) {
    std::vector<int64_t> coming(world, 0);
    for (const auto rank : turns_[turn]) coming[static_cast<size_t>(rank)] = mine;
    const auto size = static_cast<int64_t>(turns_[turn].size()) * mine;
    const bool sends = turn < sums.size();
    auto to = received.narrow(0, begin, size);
    auto from = sends ? sums[turn] : exchange.piece.narrow(0, 0, 0);
    if (sends && whole) from = exchange.copies.emplace_back(from.repeat({static_cast<int64_t>(world)}));
    exchange.works.push_back(state_->alltoall_base(to, from, coming, sends ? chunk_of : nothing));
    begin += size;
  }
}

// Adds all ranks' sums of this rank's chunk, and sends the result to those who need it and do not add it themselves. It
// lies in the first slot: rank 0 always has the first shard.
void ShardExchange::add_and_send(Exchange& exchange) const {
  for (const auto& work : std::exchange(exchange.works, {})) work->wait();
  const auto mine = chunks(exchange.piece)[static_cast<size_t>(state_->getRank())];
  const auto& received = *exchange.received;
  std::vector<at::Tensor> stack;
  for (size_t i = 0; i < slots_.size(); ++i) {
    stack.push_back(received.narrow(0, slots_[i] * mine, mine));
    for (int64_t left = tree_->all()[i]; left > 0; --left) {
      const auto right = std::move(stack.back());
      stack.pop_back();
      stack.back().add_(right);
    }
  }
  drop_negative_zeros(stack.front());
  exchange.added = true;
  if (in_one_round(exchange.piece)) {
    exchange.piece.copy_(stack.front());
  } else if (exchange.runs.empty()) {
    send_to_all(exchange, stack.front());
  } else {
    send_to_owners(exchange, stack.front());
  }
}

// The result is the first of as many copies as there are ranks.
void ShardExchange::send_to_all(Exchange& exchange, const at::Tensor& result) const {
  const int64_t world = state_->getSize(), mine = result.numel();
  auto chunk_of = chunks(exchange.piece);
  auto copies = exchange.received->narrow(0, 0, world * mine);
  copies.view({world, mine}).narrow(0, 1, world - 1).copy_(result);
  std::vector<int64_t> to_each(static_cast<size_t>(world), mine);
  exchange.works.push_back(state_->alltoall_base(exchange.piece, copies, chunk_of, to_each));
}

// What goes to a rank, and what comes from one, lies in the order of the runs.
void ShardExchange::send_to_owners(Exchange& exchange, const at::Tensor& result) const {
  std::vector<Slice> chunk_of;
  for (int64_t end = 0; const auto size : chunks(exchange.piece)) {
    chunk_of.push_back({end, end + size});
    end += size;
  }
  const auto self = static_cast<size_t>(state_->getRank());
  const auto& own = chunk_of[self];
  std::vector<int64_t> coming(chunk_of.size(), 0), going(chunk_of.size(), 0);
  std::vector<at::Tensor> sent, places;
  for (size_t other = 0; other < chunk_of.size(); ++other) {
    for (const auto& [elements, owner] : exchange.runs) {
      const auto to = overlap(elements, own), from = overlap(elements, chunk_of[other]);
      if (static_cast<size_t>(owner) == other && to.size() > 0) {
        sent.push_back(result.narrow(0, to.begin - own.begin, to.size()));
        going[other] += to.size();
      }
      if (static_cast<size_t>(owner) == self && from.size() > 0) {
        places.push_back(exchange.piece.narrow(0, from.begin, from.size()));
        coming[other] += from.size();
      }
    }
  }
  auto numbers = at::empty({std::reduce(coming.begin(), coming.end())}, result.options());
  auto all_sent = at::cat(sent);  // somebody is the owner of each element
  int64_t begin = 0;
  for (const auto& place : places)
    exchange.coming.push_back({place, numbers.narrow(0, std::exchange(begin, begin + place.numel()), place.numel())});
  exchange.works.push_back(state_->alltoall_base(numbers, all_sent, coming, going));
}

void ShardExchange::end_first() {
  auto& first = under_way_.front();
  if (!first.added) add_and_send(first);
  for (const auto& work : first.works) work->wait();
  for (const auto& [place, numbers] : first.coming) place.copy_(numbers);
  if (first.ended) first.ended();
  under_way_.pop_front();
}

}  // namespace ddprun

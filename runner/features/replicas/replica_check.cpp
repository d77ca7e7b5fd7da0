// SPDX-License-Identifier: MIT
#include "features/replicas/replica_check.h"

#include "base/log.h"
#include "base/program.h"
#include "step/machine_text.h"
#include "step/train_step.h"
#include "train/checkpointer.h"
#include "weights/tensor_digest.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace ddprun {
namespace {

// The ranks that hold the same.
struct Group {
  std::string digests;
  std::vector<size_t> ranks;
};

// Returns the largest group first; of two as large that with the lower rank.
std::vector<Group> groups_of(const std::vector<std::string>& digests) {
  std::vector<Group> groups;
  for (size_t rank = 0; rank < digests.size(); ++rank) {
    const auto same = std::ranges::find(groups, digests[rank], &Group::digests);
    if (same == groups.end()) {
      groups.push_back({digests[rank], {rank}});
    } else {
      same->ranks.push_back(rank);
    }
  }
  std::ranges::stable_sort(groups, std::greater(), [](const Group& group) { return group.ranks.size(); });
  return groups;
}

// Returns "rank 2 on node1 (cuda:0), rank 3 on node1 (cuda:1)".
std::string ranks_text(const Group& group, const std::vector<std::string>& places) {
  std::string text;
  for (const auto rank : group.ranks) text += log::text(text.empty() ? "" : ", ", "rank ", rank, " on ", places[rank]);
  return text;
}

// Returns the numbers of the tensors that two groups hold otherwise.
std::vector<size_t> differing(const Group& one, const Group& other) {
  std::vector<size_t> tensors;
  for (size_t i = 0; i * sizeof(uint64_t) < std::min(one.digests.size(), other.digests.size()); ++i) {
    const auto at = i * sizeof(uint64_t);
    if (one.digests.compare(at, sizeof(uint64_t), other.digests, at, sizeof(uint64_t)) != 0) tensors.push_back(i);
  }
  return tensors;
}

std::string bytes_of(const std::vector<uint64_t>& digests) {
  return {reinterpret_cast<const char*>(digests.data()), digests.size() * sizeof(uint64_t)};
}

}  // namespace

ReplicaCheck::ReplicaCheck(const Context& context)
    : context_(context),
      digests_(context.run_dir, {context.communicator.world().size, machine_text(context.backend.get())}) {}

void ReplicaCheck::settled(Loop& loop) {
  const auto digest = check(loop);
  if (context_.is_rank_zero()) digests_.add(loop.state.step, digest);
}

// Returns the digest of weights, the optimizer's state and averages, which does not depend on who has them. With a
// shared optimizer, each rank adds the digest of its share to that of the weights.
uint64_t ReplicaCheck::check(const Loop& loop) {
  const auto& world = context_.communicator.world();
  auto replicas = held_weights(*context_.model);
  auto own = held_state(*context_.optimizer, loop.step.ema());
  if (!loop.step.share().is_shared()) {
    std::ranges::move(own.names, std::back_inserter(replicas.names));
    std::ranges::move(own.tensors, std::back_inserter(replicas.tensors));
    own = {};
  }
  const auto digest = digest_of_replicas(replicas, loop.checkpoints.base());
  if (world.size == 1) return digest;
  auto all = at::zeros({2, world.size}, at::kLong);
  all[0][world.rank] = std::bit_cast<int64_t>(digest);
  all[1][world.rank] = std::bit_cast<int64_t>(digest_of(own.names, own.tensors));
  context_.communicator.sum(all);
  if (!all[0].eq(all[0][0]).all().item<bool>()) refuse(loop.state.step, replicas);
  checked_ = loop.state.step;
  return digest + std::bit_cast<uint64_t>(all[1].sum().item<int64_t>());
}

uint64_t ReplicaCheck::digest_of_replicas(const NamedTensors& replicas, BaseWeights& base) {
  if (base.is_empty()) return digest_of(replicas.names, replicas.tensors);
  NamedTensors others;
  for (size_t i = 0; i < replicas.names.size(); ++i)
    if (!base.has(replicas.names[i])) others.add(replicas.names[i], replicas.tensors[i]);
  return digest_of(others.names, others.tensors) + base.digest();
}

void ReplicaCheck::refuse(int64_t step, const NamedTensors& replicas) const {
  std::vector<uint64_t> digests;
  for (const auto& tensor : replicas.tensors) digests.push_back(digest_of({tensor}));
  const auto all = context_.communicator.gather_texts(bytes_of(digests));
  const auto places = context_.communicator.gather_texts(log::text(host_name(), " (", context_.device.str(), ")"));
  const auto groups = groups_of(all);
  std::string others;
  for (size_t i = 1; i < groups.size(); ++i) others += (others.empty() ? "" : "; ") + ranks_text(groups[i], places);
  const auto tensors = differing(groups[0], groups[1]);
  const auto what = tensors.empty() ? "other state"
                                    : log::text("other numbers in ", tensors.size(), " of ", replicas.names.size(),
                                                " tensors, the first of them ", replicas.names[tensors.front()]);
  throw ReplicasDiffer(log::text(
      "after step ", step, " the ranks hold different networks: ", others, (groups.size() > 2 ? " have " : " has "),
      what, "; the most alike are ", ranks_text(groups[0], places), ". ",
      checked_ < 0 ? std::string("This was the first comparison") : log::text("They were equal after step ", checked_),
      ". Either a plugin's results depend on the rank (model, optimizer, objective or a callback: look for ranks, "
      "clocks, addresses and random numbers that ddprun does not seed), or that machine's memory or GPU is faulty"));
}

std::unique_ptr<Feature> make_replicas(const Context& context, const TrainPlan& /*plan*/) {
  return std::make_unique<ReplicaCheck>(context);
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "train/replica_check.h"

#include "base/log.h"
#include "base/program.h"
#include "plugin_host/plugin_call.h"
#include "train/tensor_digest.h"

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

// With a shared optimizer, each rank adds the digest of its share to that of the weights.
uint64_t ReplicaCheck::check(int64_t step) {
  const auto& world = context_.communicator.world();
  auto replicas = weights();
  auto own = state();
  if (!is_shared()) {
    std::ranges::move(own.names, std::back_inserter(replicas.names));
    std::ranges::move(own.tensors, std::back_inserter(replicas.tensors));
    own = {};
  }
  const auto digest = digest_of_replicas(replicas);
  if (world.size == 1) return digest;
  auto all = at::zeros({2, world.size}, at::kLong);
  all[0][world.rank] = std::bit_cast<int64_t>(digest);
  all[1][world.rank] = std::bit_cast<int64_t>(digest_of(own.names, own.tensors));
  context_.communicator.sum(all);
  if (!all[0].eq(all[0][0]).all().item<bool>()) refuse(step, replicas);
  checked_ = step;
  return digest + std::bit_cast<uint64_t>(all[1].sum().item<int64_t>());
}

uint64_t ReplicaCheck::digest_of_replicas(const Named& replicas) {
  if (base_.is_empty()) return digest_of(replicas.names, replicas.tensors);
  Named others;
  for (size_t i = 0; i < replicas.names.size(); ++i)
    if (!base_.has(replicas.names[i])) others.add(replicas.names[i], replicas.tensors[i]);
  return digest_of(others.names, others.tensors) + base_.digest();
}

void ReplicaCheck::Named::add(std::string name, const at::Tensor& tensor) {
  names.push_back(std::move(name));
  tensors.push_back(tensor);
}

ReplicaCheck::Named ReplicaCheck::weights() const {
  Named weights;
  for (const auto& parameter : context_.model->named_parameters()) weights.add(parameter.key(), parameter.value());
  return weights;
}

ReplicaCheck::Named ReplicaCheck::state() const {
  Named state;
  for (const auto& [name, tensor] : in_plugin({"optimizer", "state"}, [&] { return context_.optimizer->state(); }))
    state.add(name + " of the optimizer", tensor);
  for (const auto& [name, tensor] : ema_.state()) state.add(name + " of the averages", tensor);
  return state;
}

void ReplicaCheck::refuse(int64_t step, const Named& replicas) const {
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

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "train/replica_check.h"

#include "base/log.h"
#include "base/program.h"
#include "plugin_host/plugin_call.h"
#include "train/tensor_digest.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

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

uint64_t ReplicaCheck::check(int64_t step) {
  const auto& world = context_.communicator.world();
  const auto named = replicas();
  const auto digest = digest_of(named.tensors);
  if (world.size == 1) return digest;
  auto all = at::zeros({world.size}, at::kLong);
  auto* of_ranks = all.data_ptr<int64_t>();
  of_ranks[world.rank] = std::bit_cast<int64_t>(digest);
  context_.communicator.sum(all);
  of_ranks = all.data_ptr<int64_t>();
  if (std::any_of(of_ranks, of_ranks + world.size, [&](int64_t other) { return other != of_ranks[0]; }))
    refuse(step, named);
  checked_ = step;
  return digest;
}

ReplicaCheck::Named ReplicaCheck::replicas() const {
  Named named;
  const auto add = [&named](const std::string& name, const at::Tensor& tensor) {
    named.names.push_back(name);
    named.tensors.push_back(tensor);
  };
  for (const auto& parameter : context_.model->named_parameters()) add(parameter.key(), parameter.value());
  for (const auto& [name, tensor] : in_plugin({"optimizer", "state"}, [&] { return context_.optimizer->state(); }))
    add(name + " of the optimizer", tensor);
  for (const auto& [name, tensor] : ema_.state()) add(name + " of the averages", tensor);
  return named;
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

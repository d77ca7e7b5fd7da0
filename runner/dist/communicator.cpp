// SPDX-License-Identifier: MIT
#include "dist/communicator.h"

#include "dist/device_backend.h"
#include "launch/doing.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace ddprun {
namespace {

constexpr size_t kBroadcastBucketBytes = size_t{250} << 20;  // as Python's DDP

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// Ranks are connected when they first talk to each other: sums go around a ring, so that a rank has two connections, not one to
// each of the others (docs/scaling.md).
c10::intrusive_ptr<c10d::Backend> gloo_backend(const CommunicatorOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(milliseconds(options.timeout_seconds));
  gloo->group_name = kGroupName;
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address, /*lazyInit=*/true));
  auto store = c10::make_intrusive<c10d::PrefixStore>("gloo", options.store);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(options.world.rank),
                                                     static_cast<int>(options.world.size), gloo);
}

// Runs a collective; Gloo's and NCCL's exceptions have no common type, so whatever it throws is a lost rank.
template <class Collective>
auto guarded(const char* what, Collective&& collective) {
  const Doing doing{.section = nullptr, .name = what};
  const DoingScope scope(doing);
  try {
    return collective();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw CommunicationError(std::string(what) + " failed: " + text.substr(0, text.find('\n')));
  }
}

}  // namespace

Communicator::Communicator(const CommunicatorOptions& options) : world_(options.world) {
  if (alone()) return;
  group_ = guarded("joining the process group", [&] {
    auto group = c10::make_intrusive<c10d::ProcessGroup>(options.store, static_cast<int>(world_.rank),
                                                         static_cast<int>(world_.size));
    if (options.backend) group->setBoundDeviceId(options.backend->device());  // before setBackend, which copies it
    const auto gloo = gloo_backend(options);
    group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    if (options.backend && options.gloo) {
      group->setBackend(at::kCUDA, c10d::ProcessGroup::BackendType::GLOO, gloo);
    } else if (options.backend) {
      auto store = c10::make_intrusive<c10d::PrefixStore>("nccl", options.store);
      auto nccl = options.backend->make_group_backend(store, world_.rank, world_.size, options.timeout_seconds);
      group->setBackend(at::kCUDA, c10d::ProcessGroup::BackendType::NCCL, nccl);
      group->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
    }
    group->setGroupName(kGroupName);
    return group;
  });
  guarded("joining the process group", [&] { barrier(); });  // a rank out of reach is told here, not in the first step
}

Communicator::Communicator(const World& world, c10::intrusive_ptr<c10d::ProcessGroup> group)
    : world_(world), group_(std::move(group)) {}

Communicator::~Communicator() = default;

void Communicator::sum(at::Tensor& values) {
  if (alone()) return;
  start_sum(values).take();
}

PendingSum Communicator::start_sum(at::Tensor values) {
  if (alone()) return {std::move(values), {}};
  std::vector<at::Tensor> tensors{values};
  auto work = guarded("all-reduce", [&] { return group_->allreduce(tensors); });
  return {std::move(values), [work] { guarded("all-reduce", [&] { return work->wait(); }); }};
}

void Communicator::broadcast(std::vector<at::Tensor> tensors) {
  if (alone() || tensors.empty()) return;
  for (auto& tensor : tensors) tensor = tensor.detach();
  guarded("broadcast", [&] { c10d::broadcast_coalesced(group_, tensors, kBroadcastBucketBytes, 0); });
}

void Communicator::barrier() {
  auto nothing = at::zeros({1}, at::kInt);
  sum(nothing);
}

std::vector<std::string> Communicator::gather_texts(const std::string& mine) {
  if (alone()) return {mine};
  auto sizes = at::zeros({world_.size}, at::kLong);
  sizes[world_.rank] = static_cast<int64_t>(mine.size());
  sum(sizes);
  const auto width = sizes.max().item<int64_t>();
  auto bytes = at::zeros({world_.size, std::max<int64_t>(width, 1)}, at::kByte);
  std::memcpy(bytes[world_.rank].data_ptr(), mine.data(), mine.size());
  sum(bytes);
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < world_.size; ++rank) {
    texts.emplace_back(static_cast<const char*>(bytes[rank].const_data_ptr()), sizes[rank].item<int64_t>());
  }
  return texts;
}

c10::intrusive_ptr<c10d::Store> file_store(const std::string& path, int64_t world_size) {
  return c10::make_intrusive<c10d::FileStore>(path, static_cast<int>(world_size));
}

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "comm/communicator.h"

#include "base/communication_error.h"
#include "base/current_op.h"
#include "comm/gpu_connection.h"
#include "device/device_backend.h"

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr size_t kBroadcastBucketBytes = size_t{250} << 20;  // as in Python's DDP

std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// Ranks connect when they first talk to each other. Sums go around a ring, so each rank has two connections, not one to
// every other (docs/scaling.md).
c10::intrusive_ptr<c10d::Backend> gloo_backend(const CommunicatorOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(in_milliseconds(options.timeout_seconds));
  gloo->group_name = kGroupName;
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address, /*lazyInit=*/true));
  auto store = c10::make_intrusive<c10d::PrefixStore>("gloo", options.store);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(options.world.rank),
                                                     static_cast<int>(options.world.size), gloo);
}

// Runs a collective. Gloo's and NCCL's exceptions have no common type, so any exception means a lost rank.
template <class Collective>
auto guarded(const char* what, Collective&& collective) {
  const CurrentOp doing{.section = nullptr, .name = what};
  const CurrentOpScope scope(doing);
  try {
    return collective();
  } catch (const std::exception& error) {
    throw CommunicationError(std::string(what) + " failed: " + cause_of(error));
  }
}

// ProcessGroupNCCL's destructor warns that nobody has shut it down, and aborts communicators that other ranks may still
// wait for. Leaving it to the end of the process avoids both.
void never_destroy(const c10::intrusive_ptr<c10d::Backend>& group) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<c10::intrusive_ptr<c10d::Backend>>;
  const std::scoped_lock lock(mutex);
  kept.push_back(group);
}

}  // namespace

double gpu_timeout_seconds(double timeout_seconds, double hang_seconds) {
  constexpr double kDay = 24 * 60 * 60;
  const bool noticed_first = hang_seconds > 0 && hang_seconds <= timeout_seconds;
  return noticed_first ? std::max(kDay, timeout_seconds) : timeout_seconds;
}

Communicator::Communicator(const CommunicatorOptions& options) : world_(options.world), options_(options) {
  if (!is_distributed()) return;
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
      nccl_ = options.backend->make_group_backend(store, world_.rank, world_.size, options.timeout_seconds);
      never_destroy(nccl_);
      group->setBackend(at::kCUDA, c10d::ProcessGroup::BackendType::NCCL, nccl_);
      group->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
    }
    group->setGroupName(kGroupName);
    return group;
  });
  guarded("joining the process group", [&] { barrier(); });  // reports an unreachable rank here, not in the first step
}

Communicator::Communicator(const World& world, c10::intrusive_ptr<c10d::ProcessGroup> group)
    : world_(world), group_(std::move(group)) {}

Communicator::~Communicator() = default;

void Communicator::connect_gpus(double warn_seconds) {
  if (!nccl_) return;
  auto& backend = *options_.backend;
  std::vector<GpuUse> ranks;
  for (const auto& text : gather_texts(to_text(gpu_use(backend.identity(), backend.description())))) {
    ranks.push_back(gpu_use_of(text));
  }
  require_own_gpus(ranks);
  const ConnectPatience patience{
      .address = options_.address, .warn_seconds = warn_seconds, .timeout_seconds = options_.timeout_seconds};
  guarded("connecting the GPUs (NCCL)",
          [&] { connect_within(patience, [backend = options_.backend, nccl = nccl_] { backend->connect(*nccl); }); });
}

void Communicator::leave_hangs_to_launcher(double hang_seconds) {
  if (nccl_) nccl_->setTimeout(in_milliseconds(gpu_timeout_seconds(options_.timeout_seconds, hang_seconds)));
}

void Communicator::sum(at::Tensor& values) {
  if (!is_distributed()) return;
  start_sum(values).take();
}

// Neither may be seen by a profile: Gloo's thread would write its end into one that may be over and freed by then.
PendingTensor Communicator::start_sum(at::Tensor values) {
  if (!is_distributed()) return {std::move(values), {}};
  std::vector<at::Tensor> tensors{values};
  const at::DisableRecordFunctionGuard unobserved;
  auto work = guarded("all-reduce", [&] { return group_->allreduce(tensors); });
  return {std::move(values), [work] { guarded("all-reduce", [&] { return work->wait(); }); }};
}

// Among two on the host it is a message, for which Gloo's broadcast takes half as long again.
PendingTensor Communicator::start_broadcast(at::Tensor values, int64_t from) {
  if (!is_distributed()) return {std::move(values), {}};
  std::vector<at::Tensor> tensors{values};
  const at::DisableRecordFunctionGuard unobserved;
  auto work = guarded("broadcast", [&] {
    if (world_.size > 2 || !values.is_cpu()) return group_->broadcast(tensors, {.rootRank = from});
    const auto other = static_cast<int>(1 - world_.rank), tag = ++messages_;
    return from == world_.rank ? group_->send(tensors, other, tag) : group_->recv(tensors, other, tag);
  });
  return {std::move(values), [work] { guarded("broadcast", [&] { return work->wait(); }); }};
}

void Communicator::send(const std::vector<at::Tensor>& tensors, int64_t to) {
  for (const auto& tensor : tensors) {
    std::vector<at::Tensor> one{tensor};
    guarded("sending to another rank", [&] { return group_->send(one, static_cast<int>(to), /*tag=*/0)->wait(); });
  }
}

void Communicator::receive(const std::vector<at::Tensor>& tensors, int64_t from) {
  for (const auto& tensor : tensors) {
    std::vector<at::Tensor> one{tensor};
    guarded("receiving from another rank",
            [&] { return group_->recv(one, static_cast<int>(from), /*tag=*/0)->wait(); });
  }
}

void Communicator::broadcast(std::vector<at::Tensor> tensors) {
  if (!is_distributed() || tensors.empty()) return;
  for (auto& tensor : tensors) tensor = tensor.detach();
  guarded("broadcast", [&] { c10d::broadcast_coalesced(group_, tensors, kBroadcastBucketBytes, 0); });
}

void Communicator::barrier() {
  auto nothing = at::zeros({1}, at::kInt);
  sum(nothing);
}

std::vector<std::string> Communicator::gather_texts(const std::string& mine) {
  if (!is_distributed()) return {mine};
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

std::string Communicator::broadcast_text(const std::string& text) {
  if (!is_distributed()) return text;
  auto size = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  broadcast({size});
  auto bytes = at::zeros({size.item<int64_t>()}, at::kByte);
  if (bytes.numel() == 0) return "";
  if (world_.rank == 0) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  broadcast({bytes});
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

c10::intrusive_ptr<c10d::Store> file_store(const std::string& path, int64_t world_size) {
  return c10::make_intrusive<c10d::FileStore>(path, static_cast<int>(world_size));
}

ErrorExchange::ErrorExchange(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size,
                             double timeout_seconds)
    : store_(std::move(store)),
      rank_(rank),
      world_size_(world_size),
      timeout_(static_cast<int64_t>(timeout_seconds * 1000)) {}

std::string ErrorExchange::agree(const std::string& my_error) try {
  return world_size_ == 1 ? my_error : meet(my_error);
} catch (const std::exception& error) {
  throw CommunicationError("meeting the other ranks in the store failed: " + cause_of(error));
}

namespace {

std::string key_of(int64_t meeting, const std::string& name) { return std::to_string(meeting) + "/" + name; }
std::string text_key(int64_t meeting, int64_t rank) { return key_of(meeting, "text/" + std::to_string(rank)); }

}  // namespace

void ErrorExchange::leave(const std::string& text) try {
  store_->set(text_key(meetings_, rank_), text);
} catch (const std::exception& error) {
  throw CommunicationError("leaving a text in the store failed: " + cause_of(error));
}

std::string ErrorExchange::take(int64_t rank) try {
  const auto key = text_key(meetings_ - 1, rank);
  const auto text = store_->get_to_str(key);
  store_->deleteKey(key);
  return text;
} catch (const std::exception& error) {
  throw CommunicationError("taking another rank's text from the store failed: " + cause_of(error));
}

// An error is stored before its rank arrives, so the last to arrive sees it and reports it to all. It also removes what
// the previous meeting left, which nobody reads any more.
std::string ErrorExchange::meet(const std::string& my_error) {
  constexpr CurrentOp kMeeting{.section = nullptr, .name = "meeting the other ranks in the store"};
  const CurrentOpScope scope(kMeeting);
  const auto error = key_of(meetings_, "error"), outcome = key_of(meetings_, "outcome");
  if (!my_error.empty()) store_->compareSet(error, "", my_error);
  if (store_->add(key_of(meetings_, "arrived"), 1) == world_size_) {
    for (const char* name : {"error", "arrived", "outcome"}) {
      if (meetings_ > 0) store_->deleteKey(key_of(meetings_ - 1, name));
    }
    store_->set(outcome, store_->check({error}) ? store_->get_to_str(error) : "");
  }
  store_->wait({outcome}, timeout_);
  ++meetings_;
  return store_->get_to_str(outcome);
}

}  // namespace ddprun

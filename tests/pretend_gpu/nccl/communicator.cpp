// SPDX-License-Identifier: MIT
#include "pretend_gpu/nccl/communicator.h"

#include "pretend_gpu/engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace pretend {
namespace {

thread_local std::string complaint;

uint64_t random_tag() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

Shared* map(int file) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

Shared* open_shared(const ncclUniqueId& id) {
  char path[64] = "";
  unsigned long long tag = 0;
  if (std::sscanf(id.internal, "pretend %63s %llx", path, &tag) != 2) return nullptr;
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  auto* shared = file < 0 ? nullptr : map(file);
  return shared && shared->tag == tag ? shared : nullptr;
}

}  // namespace

ncclResult_t complain(ncclResult_t result, const std::string& text) {
  complaint = text;
  log(0, "NCCL: %s", text.c_str());
  return result;
}

const char* last_complaint() { return complaint.c_str(); }

ncclResult_t make_id(ncclUniqueId& id) {
  const int file = ::memfd_create("pretend_nccl", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0)
    return complain(ncclSystemError, std::string("no memory for the ranks to share: ") + std::strerror(errno));
  auto* shared = map(::dup(file));
  if (!shared)
    return complain(ncclSystemError, std::string("no memory for the ranks to share: ") + std::strerror(errno));
  shared->tag = random_tag();
  id = {};
  std::snprintf(id.internal, sizeof id.internal, "pretend /proc/%d/fd/%d %llx", ::getpid(), file,
                static_cast<unsigned long long>(shared->tag));
  return ncclSuccess;
}

}  // namespace pretend

using pretend::complain;

ncclResult_t ncclComm::open(ncclComm** out, int size, const ncclUniqueId& id, int rank) {
  if (size < 1 || rank < 0 || rank >= size)
    return complain(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks");
  if (size > pretend::kMostRanks)
    return complain(ncclInvalidArgument, "not pretended: more than " + std::to_string(pretend::kMostRanks) + " ranks");
  auto* shared = pretend::open_shared(id);
  if (!shared)
    return complain(ncclSystemError, "the process that made the unique id is not there, or belongs to somebody else");
  auto* comm = new ncclComm;
  comm->shared = shared;
  comm->rank = rank;
  comm->size = size;
  comm->device = pretend::current_device();
  auto& gpu = shared->gpus[rank];
  if (gpu[0] != '\0') return complain(ncclInvalidArgument, "two ranks have the number " + std::to_string(rank));
  const char* host = std::getenv("NCCL_HOSTID");  // ranks of different "machines" may share a GPU
  std::snprintf(gpu, sizeof gpu, "%s %s", pretend::bus_id(comm->device).c_str(), host ? host : "");
  ++shared->joined;
  *out = comm;
  return ncclSuccess;
}

// User guide, "Creating a communicator": a device must not be used by two ranks of one communicator.
ncclResult_t ncclComm::await_all() const {
  wait_until([this] { return shared->joined.load() >= size; });
  for (int other = 0; other < size; ++other) {
    if (other == rank || std::strcmp(shared->gpus[other], shared->gpus[rank]) != 0) continue;
    return complain(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " +
                                          std::to_string(other) + " both on CUDA device " + shared->gpus[rank]);
  }
  pretend::log(2, "NCCL: rank %d of %d on device %d", rank, size, device);
  return ncclSuccess;
}

bool ncclComm::wait_until(const std::function<bool()>& done) const {
  constexpr long kBusy = 50, kSoon = 2000;
  for (long tries = 0; !done(); ++tries) {
    if (aborted) return false;
    if (tries > kBusy) ::usleep(tries > kSoon ? 1000 : 20);
  }
  return !aborted;
}

bool ncclComm::meet(std::atomic<uint64_t>* meetings, uint64_t& mine) const {
  meetings[rank].store(++mine);
  return wait_until([&] {
    for (int other = 0; other < size; ++other) {
      if (meetings[other].load() < mine) return false;
    }
    return true;
  });
}

// SPDX-License-Identifier: MIT
// A communicator: what its ranks share, which lies in memory without a name (memfd). The process that made the unique
// id holds it, and the others open it there, so that two worlds never meet, and nothing is left behind by whatever
// dies.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace pretend {

constexpr int kMostRanks = 8;
constexpr size_t kChunk = size_t{256} << 10;  // bytes of a rank that the others see at once
constexpr size_t kLetter = size_t{64} << 10;  // bytes on their way from one rank to another

enum class Kind : int { kNone, kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter };

// What all ranks must agree on, for each chunk.
struct Call {
  Kind kind = Kind::kNone;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t operation = ncclSum;
  int root = 0;
  size_t count = 0, chunk = 0;
  bool operator==(const Call&) const = default;
};

// What is sent from one rank to another, a letter at a time.
struct Mailbox {
  std::atomic<uint64_t> sent, taken;
  size_t message = 0;  // bytes of the whole message that this letter is of
  char bytes[kLetter];
};

// Zero at first. Two sets are used in turn, so that nobody waits for the readers of the last chunk: who fills a set
// anew has met all others since, and they had read it by then.
struct Shared {
  uint64_t tag;
  std::atomic<int> joined;
  std::atomic<uint64_t> host_meetings[kMostRanks], meetings[kMostRanks];
  char gpus[kMostRanks][128];
  int colors[kMostRanks], keys[kMostRanks];
  ncclUniqueId ids[kMostRanks];
  Call calls[2][kMostRanks];
  Mailbox boxes[kMostRanks][kMostRanks];  // [from][to]
  char data[2][kMostRanks][kChunk];
};

// Says what went wrong, on stderr and to ncclGetLastError, and returns `result`.
ncclResult_t complain(ncclResult_t result, const std::string& text);
const char* last_complaint();

ncclResult_t make_id(ncclUniqueId& id);

}  // namespace pretend

// The type behind ncclComm_t. It is never freed: work of its streams may still hold it.
struct ncclComm {
  pretend::Shared* shared = nullptr;
  int rank = 0, size = 0, device = 0;
  std::atomic<bool> aborted{false}, destroyed{false};
  std::atomic<int> error{ncclSuccess};           // for ncclCommGetAsyncError
  std::vector<std::function<double()>> factors;  // of ncclRedOpCreatePreMulSum
  std::mutex turn;                               // one operation at a time

  // Opens the shared memory and says that this rank is there.
  static ncclResult_t open(ncclComm** out, int size, const ncclUniqueId& id, int rank);
  // Waits until all ranks are there. Each has a GPU of its own, or it is an error on all of them.
  ncclResult_t await_all() const;

  // Waits for all ranks: in calls of the host, and in work on a stream. Returns false if the communicator was aborted
  // meanwhile.
  bool meet_on_host() { return meet(shared->host_meetings, host_meetings_); }
  bool meet() { return meet(shared->meetings, meetings_); }
  int set() const { return static_cast<int>(meetings_ % 2); }  // of `calls` and `data`, until the next meeting

  // Calls `done` again and again until it returns true. Returns false if the communicator was aborted meanwhile.
  bool wait_until(const std::function<bool()>& done) const;
  void wait_for_abort() const {
    wait_until([] { return false; });
  }

 private:
  bool meet(std::atomic<uint64_t>* meetings, uint64_t& mine) const;

  uint64_t host_meetings_ = 0, meetings_ = 0;
};

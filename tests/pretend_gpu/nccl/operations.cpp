// SPDX-License-Identifier: MIT
#include "pretend_gpu/nccl/operations.h"

#include "pretend_gpu/engine.h"
#include "pretend_gpu/nccl/numbers.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace pretend {
namespace {

constexpr std::array kNames{"nothing", "AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter"};

std::string text_of(int rank, const Call& call) {
  return "rank " + std::to_string(rank) + " calls " + kNames[static_cast<size_t>(call.kind)] + " of " +
         std::to_string(call.count) + " numbers of type " + std::to_string(call.type) + ", operation " +
         std::to_string(call.operation) + ", root " + std::to_string(call.root);
}

// One rank's view of one collective, chunk by chunk.
class Collective {
 public:
  Collective(ncclComm& comm, const Call& call, const Operands& operands)
      : comm_(comm),
        call_(call),
        size_(size_of(call.type)),
        bytes_(call.count * size_),
        send_(shadow(operands.send)),
        receive_(shadow(operands.receive)),
        factor_(operands.factor ? operands.factor() : 1) {}

  void run() {
    const int parts = call_.kind == Kind::kReduceScatter ? comm_.size : 1;
    for (int part = 0; part < parts; ++part) {
      const auto from = static_cast<size_t>(part) * bytes_;
      size_t at = 0;
      do {  // without a number, too: the ranks meet
        const size_t length = std::min(kChunk, bytes_ - at);
        if (!exchange(send_ + from + at, length)) return;
        take(part, at, length);
        at += length;
      } while (at < bytes_);
    }
  }

 private:
  char* data(int rank) const { return comm_.shared->data[set_][rank]; }

  // Lays this rank's bytes before the others. Returns false if the communicator was aborted.
  bool exchange(const char* mine, size_t length) {
    set_ = comm_.set();
    const bool gives = call_.kind != Kind::kBroadcast || comm_.rank == call_.root;
    if (gives && length > 0) std::memcpy(data(comm_.rank), mine, length);
    if (factor_ != 1) scale(call_.type, data(comm_.rank), length / size_, factor_);
    comm_.shared->calls[set_][comm_.rank] = call_;
    if (!comm_.meet()) return false;
    ++call_.chunk;
    return all_agree();
  }

  // User guide, "Collective Operations": the ranks must call the same, or the result is undefined, "hangs, crashes, or
  // data corruption". Here they hang, and the reason is reported.
  bool all_agree() const {
    const auto& calls = comm_.shared->calls[set_];
    const auto other =
        std::find_if(calls, calls + comm_.size, [&](const Call& call) { return !(call == calls[comm_.rank]); });
    if (other == calls + comm_.size) return true;
    complain(ncclInvalidUsage, "the ranks do not call the same: " + text_of(comm_.rank, calls[comm_.rank]) + "; " +
                                   text_of(static_cast<int>(other - calls), *other));
    comm_.wait_for_abort();
    return false;
  }

  void take(int part, size_t at, size_t length) {
    const bool is_root = comm_.rank == call_.root;
    switch (call_.kind) {
      case Kind::kAllReduce: return reduce_into(receive_ + at, length);
      case Kind::kReduce: return is_root ? reduce_into(receive_ + at, length) : void();
      case Kind::kReduceScatter: return part == comm_.rank ? reduce_into(receive_ + at, length) : void();
      case Kind::kBroadcast: std::memcpy(receive_ + at, data(call_.root), length); return;
      default:
        for (int rank = 0; rank < comm_.size; ++rank)
          std::memcpy(receive_ + static_cast<size_t>(rank) * bytes_ + at, data(rank), length);
    }
  }

  // Reduces in the ranks' order, so that all get the same bits.
  void reduce_into(char* to, size_t length) const {
    const auto count = length / size_;
    std::vector<char> sum(data(0), data(0) + length);
    for (int rank = 1; rank < comm_.size; ++rank) reduce(call_.type, call_.operation, sum.data(), data(rank), count);
    if (call_.operation == ncclAvg) scale(call_.type, sum.data(), count, 1.0 / comm_.size);
    std::copy(sum.begin(), sum.end(), to);
  }

  ncclComm& comm_;
  Call call_;
  size_t size_, bytes_;
  const char* send_;
  char* receive_;
  double factor_;
  int set_ = 0;
};

// A message under way.
struct Transfer {
  Message message;
  Mailbox* box;
  size_t done = 0;
  bool begun = false;

  bool is_over() const { return begun && done == message.bytes; }

  // Moves a letter if it can. Returns false where the two sides mean different messages.
  bool advance() {
    const bool has_letter = box->sent.load() != box->taken.load();
    if (is_over() || has_letter == message.sends) return true;
    const size_t length = std::min(kLetter, message.bytes - done);
    if (message.sends) {
      box->message = message.bytes;
      std::memcpy(box->bytes, shadow(message.data) + done, length);
      ++box->sent;
    } else {
      if (box->message != message.bytes) return false;
      std::memcpy(shadow(message.data) + done, box->bytes, length);
      ++box->taken;
    }
    begun = true;
    done += length;
    return true;
  }
};

}  // namespace

void run_collective(ncclComm& comm, Call call, const Operands& operands) {
  const std::scoped_lock lock(comm.turn);
  if (!comm.aborted) Collective(comm, call, operands).run();
}

// User guide, "Point-to-point communication": all messages of a group continue together, and those between the same two
// ranks in their order.
void run_messages(ncclComm& comm, const std::vector<Message>& messages) {
  const std::scoped_lock lock(comm.turn);
  std::vector<Transfer> transfers;
  for (const auto& message : messages) {
    auto& boxes = comm.shared->boxes;
    auto& box = message.sends ? boxes[comm.rank][message.peer] : boxes[message.peer][comm.rank];
    transfers.push_back({.message = message, .box = &box});
  }
  bool agree = true;
  comm.wait_until([&] {
    bool over = true;
    for (auto next = transfers.begin(); agree && next != transfers.end(); ++next) {
      const bool waits = std::any_of(transfers.begin(), next, [&](const Transfer& before) {
        return before.box == next->box && before.message.sends == next->message.sends && !before.is_over();
      });
      if (!waits && !next->advance()) {
        agree = false;
        complain(ncclInvalidUsage, "rank " + std::to_string(comm.rank) + " expects " +
                                       std::to_string(next->message.bytes) + " bytes of rank " +
                                       std::to_string(next->message.peer) + ", which sends " +
                                       std::to_string(next->box->message));
      }
      over = over && next->is_over();
    }
    return over || !agree;
  });
  if (!agree) comm.wait_for_abort();
}

}  // namespace pretend

// SPDX-License-Identifier: MIT
// Makes ranks succeed or fail together, through the store alone, so that a thread other than the training thread may
// use it without touching that thread's collectives.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun {

// Used from one thread at a time. A meeting costs each rank three or four store requests, however many ranks there are.
class ErrorExchange {
 public:
  // `store` is for this object alone, under a prefix of its own; unused with one rank.
  ErrorExchange(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size, double timeout_seconds);

  // Blocks until all ranks have called it equally often. Each passes its own error text (empty if all went well); all
  // get the same non-empty one, if any, or the empty text. Throws CommunicationError if the others do not come in time.
  std::string agree(const std::string& my_error);

 private:
  std::string meet(const std::string& my_error);

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_, world_size_;
  std::chrono::milliseconds timeout_;
  int64_t meetings_ = 0;
};

}  // namespace ddprun

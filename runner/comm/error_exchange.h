// SPDX-License-Identifier: MIT
// Ranks that succeed or fail together, through the store alone: a thread beside the training's, whose collectives are
// not its own, may use it.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun {

// Used from one thread at a time. A meeting costs each rank three or four requests to the store, however many there
// are.
class ErrorExchange {
 public:
  // `store` is for this object alone, under a prefix of its own; unused with a world of one.
  ErrorExchange(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size, double timeout_seconds);

  // Blocks until all ranks have called it as often; each passes its own error text (empty: it went well), all get the
  // same one of those that are not empty, or the empty text. Throws CommunicationError where the others do not come in
  // time.
  std::string agree(const std::string& my_error);

 private:
  std::string meet(const std::string& my_error);

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_, world_size_;
  std::chrono::milliseconds timeout_;
  int64_t meetings_ = 0;
};

}  // namespace ddprun

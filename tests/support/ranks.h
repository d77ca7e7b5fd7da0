// SPDX-License-Identifier: MIT
// Ranks as threads of the test, joined through a store in memory.
#pragma once

#include "dist/communicator.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace ddprun::testing {

// Runs `body` once for each rank, in a thread of its own; rethrows the first rank's exception after all have ended.
inline void on_ranks(int64_t ranks, const std::function<void(Communicator&)>& body, double timeout_seconds = 60) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Communicator communicator(
            {.world = {rank, ranks, rank, ranks}, .store = store, .timeout_seconds = timeout_seconds});
        body(communicator);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace ddprun::testing

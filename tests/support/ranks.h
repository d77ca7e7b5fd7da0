// SPDX-License-Identifier: MIT
// Ranks as threads of the test, joined through a store in memory.
#pragma once

#include "comm/communicator.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <sched.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace ddprun::testing {

// c10d's flight recorder is one for the whole process and notes the first collective of each group without a lock: with
// a group in each thread that is a data race, and now and then a crash. Off, before anybody asks for it.
inline const bool kFlightRecorderOff = setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1) == 0 &&
                                       setenv("TORCH_NCCL_TRACE_BUFFER_SIZE", "0", /*overwrite=*/1) == 0;

// A rank that is woken by a message does not interrupt its sender, which still holds the lock of Gloo's connection:
// Gloo's own thread would ask for it again and again until the sender runs once more, half of the time of these tests.
inline const bool kRanksDoNotInterruptEachOther = [] {
  const sched_param none{};
  return sched_setscheduler(0, SCHED_BATCH, &none) == 0;
}();

// Runs `body` once for each rank, in a thread of its own, with a GPU of its own where `make_backend` is given; rethrows
// the first rank's exception after all have ended.
using MakeBackend = std::function<std::shared_ptr<DeviceBackend>(int64_t rank)>;

inline void on_ranks(int64_t ranks, const std::function<void(Communicator&)>& body, double timeout_seconds = 60,
                     const MakeBackend& make_backend = {}) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Communicator communicator({.world = {rank, ranks, rank, ranks},
                                   .store = store,
                                   .backend = make_backend ? make_backend(rank) : nullptr,
                                   .timeout_seconds = timeout_seconds});
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

// SPDX-License-Identifier: MIT
// The devices that this process sees, and what each function of CUDA's runtime does first and last.
#pragma once

#include "pretend_gpu/engine.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace pretend {

class Stream;

// It lives for ever, like its streams: threads of the process use it until the very end.
struct Device {
  int index = 0, number = 0;  // among the visible ones; of the machine
  size_t total_bytes = 0;
  char *addresses = nullptr, *bytes = nullptr;  // two ranges of total_bytes: what programs hold, and its shadow
  std::mutex mutex;                             // of what follows
  std::map<size_t, size_t> blocks;              // what is allocated: offset, size
  size_t used_bytes = 0;
  std::vector<Stream*> streams;           // the legacy stream first
  std::atomic<int> failure{cudaSuccess};  // a kernel's, which every later call returns
};

const std::vector<std::unique_ptr<Device>>& all_devices();
Device& device(int index);
Device& current();

// What a call returns, which cudaGetLastError shows until it is asked.
cudaError_t result(cudaError_t error);

// The error that an entry ends with at once: an ordered one, no device, or the device's failure, since each call may
// return what went wrong in work before it (cuda_runtime_api.h, in the notes of most functions).
cudaError_t enter(const char* function);

// Whether the thread's last entry was ordered to stall: the work that it enqueues must never end.
bool stalls();

cudaError_t wait_for_device(Device& device);

#define PRETEND_ENTER() \
  if (const auto entered = pretend::enter(__func__); entered != cudaSuccess) return pretend::result(entered)

}  // namespace pretend

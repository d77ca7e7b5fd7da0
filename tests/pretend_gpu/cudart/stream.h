// SPDX-License-Identifier: MIT
// A stream: a queue of work with a thread of its own. Streams live for ever, since marks in their order point at them.
#pragma once

#include "pretend_gpu/cudart/devices.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <set>

namespace pretend {

struct Capture;

// When work runs: in its stream's thread as soon as that is free; before the call returns that enqueues it; or only
// once somebody waits for it or asks about it, which makes every missing wait show.
enum class Schedule { kAsync, kSync, kLazy };
Schedule schedule();

class Stream {
 public:
  Stream(Device& on, int with_priority) : device(on), priority(with_priority) {}

  // Returns the work's place in the stream's order, from 1.
  uint64_t put(const char* name, Work work);

  void wait(uint64_t place);
  void wait_all() { wait(last()); }
  bool passed(uint64_t place);
  uint64_t last();

  Device& device;
  const int priority;
  // Of capture.cpp, under its mutex: the capture that takes the stream's work, and the nodes that the next one comes
  // after.
  std::shared_ptr<Capture> capture;
  std::set<size_t> heads;

 private:
  struct Item {
    const char* name;
    Work work;
  };
  void start_thread();
  void run();
  void want(uint64_t place);  // the mutex is held

  std::mutex mutex_;
  std::condition_variable more_, progress_;
  std::deque<Item> queue_;
  uint64_t added_ = 0, done_ = 0, wanted_ = 0;
  bool has_thread_ = false;
};

// The stream that a handle means on the current device.
Stream& stream_of(cudaStream_t handle);

}  // namespace pretend

// SPDX-License-Identifier: MIT
// Capture of streams into graphs. The rules are those of the CUDA C++ Programming Guide, "Creating a Graph Using Stream
// Capture", of what cuda_runtime_api.h says of each function, and of the errors in driver_types.h; driver 580 on an
// H100 was asked for each (tests/gpu/cuda_rules_gpu_test.cpp).
#pragma once

#include "pretend_gpu/cudart/stream.h"

#include <thread>

namespace pretend {

struct Node {
  const char* name;
  Work work;
  std::set<size_t> parents;
};

struct Graph {
  std::vector<Node> nodes;  // in the order of capture
};

struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode{};
  std::thread::id thread;
  Stream* origin = nullptr;
  bool broken = false;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<Stream*> streams;
};

// Guards all captures, and what streams and marks say of them.
std::mutex& captures_mutex();

// Whether its graph exists already. The mutex is held.
bool is_over(const std::shared_ptr<Capture>& capture);

// Adds to the stream, or to the graph that it is captured into.
cudaError_t put(Stream& stream, const char* name, Work work);

// A broken capture takes no more work, and its end returns cudaErrorStreamCaptureInvalidated. The mutex is held.
void break_capture(Capture& capture, const char* why);

// What waits for a stream, or asks about it, may not while it is captured: that breaks the capture.
cudaError_t refuse_captured(Stream& stream, const char* function);

// The same for a whole device, some of whose streams are captured.
cudaError_t refuse_captured(const Device& device, const char* function);

// A call that CUDA calls potentially unsafe, since no replay would repeat it, as cudaMalloc. Where a capture's mode and
// the thread's forbid it, it fails, and breaks the capture (cuda_runtime_api.h, cudaThreadExchangeStreamCaptureMode).
cudaError_t refuse_unsafe(const char* function);

#define PRETEND_UNSAFE() \
  if (const auto refused = pretend::refuse_unsafe(__func__); refused != cudaSuccess) return pretend::result(refused)

// For cudaStreamWaitEvent: the stream joins the capture whose nodes `heads` are. The mutex is held.
cudaError_t join_capture(Stream& stream, const std::shared_ptr<Capture>& capture, const std::set<size_t>& heads);

}  // namespace pretend

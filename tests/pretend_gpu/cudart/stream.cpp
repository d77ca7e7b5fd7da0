// SPDX-License-Identifier: MIT
#include "pretend_gpu/cudart/stream.h"

#include "pretend_gpu/cudart/capture.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

namespace pretend {
namespace {

// After so many pieces of work a launch waits for the first, about as a GPU's queue does.
constexpr uint64_t kMostPending = 1000;

std::atomic<bool> ending{false};
std::atomic<int> running{0};

// The process's destructors must not run under work that is under way.
struct AtExit {
  ~AtExit() {
    ending = true;
    constexpr int kMostMilliseconds = 200;
    for (int i = 0; i < kMostMilliseconds && running > 0; ++i) usleep(1000);
  }
};
const AtExit at_exit;

}  // namespace

Schedule schedule() {
  static const Schedule chosen = [] {
    const auto name = setting("SCHEDULE", "async");
    if (name == "sync") return Schedule::kSync;
    if (name == "lazy") return Schedule::kLazy;
    if (name != "async") {
      log(0, "PRETEND_SCHEDULE: expected async, sync or lazy, found \"%s\"", name.c_str());
      std::_Exit(1);
    }
    return Schedule::kAsync;
  }();
  return chosen;
}

uint64_t Stream::put(const char* name, Work work) {
  if (stalls()) {
    name = "stall";
    work = [] {
      while (!ending) usleep(1000);
    };
  }
  std::unique_lock lock(mutex_);
  if (!has_thread_) start_thread();
  queue_.push_back({name, std::move(work)});
  const auto place = ++added_;
  if (place > kMostPending) want(place - kMostPending);
  more_.notify_one();
  if (schedule() == Schedule::kSync) {
    want(place);
    progress_.wait(lock, [&] { return done_ >= place; });
  }
  return place;
}

void Stream::want(uint64_t place) {
  if (place <= wanted_) return;
  wanted_ = place;
  more_.notify_one();
}

void Stream::wait(uint64_t place) {
  std::unique_lock lock(mutex_);
  want(place);
  progress_.wait(lock, [&] { return done_ >= place; });
}

bool Stream::passed(uint64_t place) {
  const std::scoped_lock lock(mutex_);
  want(place);  // who asks makes a lazy stream begin, or he would ask for ever
  return done_ >= place;
}

uint64_t Stream::last() {
  const std::scoped_lock lock(mutex_);
  return added_;
}

// Signals are the program's own: no thread of ours may take them.
void Stream::start_thread() {
  has_thread_ = true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Stream::run() {
  pthread_setname_np(pthread_self(), "pretend-stream");
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [&] { return !queue_.empty() && (schedule() != Schedule::kLazy || done_ < wanted_); });
    auto item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    ++running;
    if (!ending) {
      trace("run", item.name, device.index, this);
      item.work();
    }
    --running;
    item.work = nullptr;  // what it holds is destroyed outside the lock
    lock.lock();
    ++done_;
    progress_.notify_all();
  }
}

// The legacy stream of LibTorch's programs is the current device's first. Its implicit waits for blocking streams are
// not pretended, so there are no blocking streams: LibTorch and NCCL make none.
Stream& stream_of(cudaStream_t handle) {
  if (handle == cudaStreamPerThread) log(0, "not pretended: cudaStreamPerThread is the legacy stream here");
  const bool legacy = handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
  return legacy ? *current().streams.front() : *reinterpret_cast<Stream*>(handle);
}

cudaError_t wait(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

}  // namespace pretend

using pretend::current;
using pretend::result;
using pretend::Stream;
using pretend::stream_of;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  PRETEND_ENTER();
  if (flags != cudaStreamNonBlocking) {
    pretend::log(0, "not pretended: a blocking stream, for which the legacy stream would wait");
    return result(cudaErrorNotSupported);
  }
  auto* made = new Stream(current(), priority);
  const std::scoped_lock lock(current().mutex);
  current().streams.push_back(made);
  *out = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}

// Work under way is finished, and the call does not wait for it (cuda_runtime_api.h, cudaStreamDestroy).
cudaError_t cudaStreamDestroy(cudaStream_t) {
  PRETEND_ENTER();
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  PRETEND_ENTER();
  *priority = stream_of(stream).priority;
  return cudaSuccess;
}

// The range of an H100. Nothing here heeds priorities: which stream runs first is for the machine's scheduler.
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

// A stream that is being captured can neither be waited for nor asked (CUDA C++ Programming Guide, "Stream Capture:
// Prohibited and Unhandled Operations").
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  PRETEND_ENTER();
  auto& on = stream_of(stream);
  if (const auto error = refuse_captured(on, __func__)) return result(error);
  PRETEND_UNSAFE();
  pretend::trace("host_wait", __func__, on.device.index, &on);
  on.wait_all();
  return result(static_cast<cudaError_t>(on.device.failure.load()));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  PRETEND_ENTER();
  auto& on = stream_of(stream);
  if (const auto error = refuse_captured(on, __func__)) return result(error);
  PRETEND_UNSAFE();
  return on.passed(on.last()) ? cudaSuccess : cudaErrorNotReady;
}

// A host function comes after the stream's work before it and holds up what is behind it; where the device has failed
// it is not called (cuda_runtime_api.h, cudaLaunchHostFunc).
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* data) {
  PRETEND_ENTER();
  auto& on = stream_of(stream);
  return result(put(on, "host function", [=, &on] {
    if (on.device.failure == cudaSuccess) call(data);
  }));
}

// A callback is called whatever has failed, which it is reported, and cannot be captured (cuda_runtime_api.h,
// cudaStreamAddCallback).
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* data, unsigned) {
  PRETEND_ENTER();
  auto& on = stream_of(stream);
  if (const auto error = refuse_captured(on, __func__)) return result(error);
  return result(
      put(on, "callback", [=, &on] { call(stream, static_cast<cudaError_t>(on.device.failure.load()), data); }));
}

}  // extern "C"

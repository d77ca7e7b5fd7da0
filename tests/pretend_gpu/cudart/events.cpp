// SPDX-License-Identifier: MIT
#include "pretend_gpu/cudart/capture.h"

#include <chrono>
#include <unordered_set>

namespace pretend {
namespace {

using Clock = std::chrono::steady_clock;

// A place in a stream's order, or in a capture's.
struct Mark {
  Stream* stream = nullptr;
  uint64_t place = 0;
  std::shared_ptr<Capture> capture;  // where it was recorded in one
  std::set<size_t> heads;
  std::atomic<bool> passed{false};
  Clock::time_point time;  // once passed
};

struct Event {
  unsigned flags = 0;
  std::shared_ptr<Mark> mark;  // null: never recorded
};

std::mutex events_mutex;  // of the set, and of each event's mark

std::unordered_set<Event*>& events() {
  static auto& all = *new std::unordered_set<Event*>;
  return all;
}

// The event's last record; sets `error` where the handle is none, as after its destruction.
std::shared_ptr<Mark> mark_of(cudaEvent_t handle, cudaError_t& error) {
  auto* event = reinterpret_cast<Event*>(handle);
  const std::scoped_lock lock(events_mutex);
  error = events().count(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  return error ? nullptr : event->mark;
}

// The host can neither ask about an event that was last recorded in a capture nor wait for it (cuda_runtime_api.h,
// cudaThreadExchangeStreamCaptureMode; driver_types.h, cudaErrorCapturedEvent). That breaks the capture. Once that is
// over, the event is no valid one (driver 580 on an H100; not documented).
cudaError_t refuse_captured_event(const Mark& mark, const char* function) {
  if (!mark.capture) return cudaSuccess;
  const std::scoped_lock lock(captures_mutex());
  if (is_over(mark.capture)) return cudaErrorInvalidValue;
  break_capture(*mark.capture, function);
  return cudaErrorCapturedEvent;
}

cudaError_t external_event() {
  log(0, "not pretended: an external event");
  return cudaErrorNotSupported;
}

// A captured record is the place after the stream's last nodes; it is no node itself.
std::shared_ptr<Mark> record(Stream& on) {
  auto mark = std::make_shared<Mark>();
  mark->stream = &on;
  {
    const std::scoped_lock lock(captures_mutex());
    if (on.capture) {
      mark->capture = on.capture;
      mark->heads = on.heads;
      return mark;
    }
  }
  mark->place = on.put("event", [mark] {
    mark->time = Clock::now();
    mark->passed = true;
  });
  return mark;
}

}  // namespace
}  // namespace pretend

using pretend::Event;
using pretend::result;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  PRETEND_ENTER();
  auto* made = new Event{.flags = flags};
  const std::scoped_lock lock(pretend::events_mutex);
  pretend::events().insert(made);
  *out = reinterpret_cast<cudaEvent_t>(made);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }

// An event may be destroyed while it has not passed (cuda_runtime_api.h, cudaEventDestroy): its marks live on.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  PRETEND_ENTER();
  const std::scoped_lock lock(pretend::events_mutex);
  if (!pretend::events().erase(reinterpret_cast<Event*>(event))) return result(cudaErrorInvalidResourceHandle);
  delete reinterpret_cast<Event*>(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  PRETEND_ENTER();
  auto& on = pretend::stream_of(stream);
  if (flags != cudaEventRecordDefault) return result(pretend::external_event());
  cudaError_t error{};
  pretend::mark_of(event, error);
  if (error) return result(error);
  auto mark = pretend::record(on);
  const std::scoped_lock lock(pretend::events_mutex);
  reinterpret_cast<Event*>(event)->mark = std::move(mark);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  PRETEND_ENTER();
  PRETEND_UNSAFE();
  cudaError_t error{};
  const auto mark = pretend::mark_of(event, error);
  if (!mark) return result(error);
  if ((error = refuse_captured_event(*mark, __func__))) return result(error);
  return mark->stream->passed(mark->place) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  PRETEND_ENTER();
  PRETEND_UNSAFE();
  cudaError_t error{};
  const auto mark = pretend::mark_of(event, error);
  if (!mark) return result(error);
  if ((error = refuse_captured_event(*mark, __func__))) return result(error);
  pretend::trace("host_wait", __func__, mark->stream->device.index, mark->stream);
  mark->stream->wait(mark->place);
  return result(static_cast<cudaError_t>(mark->stream->device.failure.load()));
}

// Both must have been made with timing, been recorded and have passed (cuda_runtime_api.h, cudaEventElapsedTime).
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  PRETEND_ENTER();
  cudaError_t error{};
  const auto first = pretend::mark_of(from, error);
  if (error) return result(error);
  const auto last = pretend::mark_of(to, error);
  if (error) return result(error);
  const auto flags = reinterpret_cast<Event*>(from)->flags | reinterpret_cast<Event*>(to)->flags;
  if ((flags & cudaEventDisableTiming) || !first || !last) return result(cudaErrorInvalidResourceHandle);
  if (first->capture || last->capture) return result(cudaErrorCapturedEvent);
  if (!first->passed || !last->passed) return result(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(last->time - first->time).count();
  return cudaSuccess;
}

// A captured stream waits only for what is in its capture (driver_types.h, cudaErrorStreamCaptureIsolation). An event
// that was never recorded is no work at all.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  PRETEND_ENTER();
  if (flags != cudaEventWaitDefault) return result(pretend::external_event());
  auto& on = pretend::stream_of(stream);
  cudaError_t error{};
  const auto mark = pretend::mark_of(event, error);
  if (!mark) return result(error);
  {
    const std::scoped_lock lock(pretend::captures_mutex());
    if (mark->capture) return result(join_capture(on, mark->capture, mark->heads));
    if (on.capture) {
      break_capture(*on.capture, "a captured stream would wait for work outside");
      return result(cudaErrorStreamCaptureIsolation);
    }
  }
  on.put("wait for an event", [mark] { mark->stream->wait(mark->place); });
  return cudaSuccess;
}

}  // extern "C"

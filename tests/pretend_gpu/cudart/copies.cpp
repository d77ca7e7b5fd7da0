// SPDX-License-Identifier: MIT
// Copies and fills, as work of a stream. Which calls return before they are done: CUDA Runtime API, "API
// synchronization behavior".
#include "pretend_gpu/cudart/capture.h"
#include "pretend_gpu/cudart/memory.h"

#include <cstring>

namespace pretend {
namespace {

bool fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

// A copy from pageable memory has read it when the call returns. A captured one reads it at each replay, where it may
// be gone.
Work work_of(const Copy& copy, bool read_now) {
  if (!read_now) return [copy] { std::memmove(shadow(copy.to), shadow(copy.from), copy.bytes); };
  auto read = std::make_shared<std::string>(static_cast<const char*>(copy.from), copy.bytes);
  return [copy, read] { std::memcpy(shadow(copy.to), read->data(), copy.bytes); };
}

// A copy to pageable memory has written it when the call returns, so it cannot be captured. Only page-locked memory is
// copied to and from while the host continues.
cudaError_t copy(const Copy& copy, cudaMemcpyKind kind, Stream& stream, bool wait) {
  if (copy.bytes == 0) return cudaSuccess;
  const bool to_device = device_of(copy.to) >= 0, from_device = device_of(copy.from) >= 0;
  if (!fits(kind, to_device, from_device) || !is_allocated(copy.to, copy.bytes) ||
      !is_allocated(copy.from, copy.bytes)) {
    log(0, "a copy of %zu bytes from %p to %p, kind %d: there is no such memory", copy.bytes, copy.from, copy.to, kind);
    return cudaErrorInvalidValue;
  }
  bool read_now = !from_device && !is_pinned(copy.from);
  wait = wait || (!to_device && !is_pinned(copy.to));
  if (wait) {
    if (const auto error = refuse_captured(stream, "a copy that the host waits for")) return error;
  }
  if (read_now && is_capturing(reinterpret_cast<cudaStream_t>(&stream))) {
    log(1, "a captured copy reads pageable memory at %p whenever it is replayed", copy.from);
    read_now = false;
  }
  trace("copy", read_now || wait ? "pageable" : "pinned", stream.device.index, &stream, copy.bytes);
  if (const auto error = put(stream, "copy", work_of(copy, read_now))) return error;
  if (!wait) return cudaSuccess;
  trace("host_wait", "copy", stream.device.index, &stream);
  stream.wait_all();
  return static_cast<cudaError_t>(stream.device.failure.load());
}

cudaError_t fill(void* to, int value, size_t bytes, Stream& stream) {
  if (device_of(to) < 0 || !is_allocated(to, bytes)) return cudaErrorInvalidValue;
  trace("copy", "memset", stream.device.index, &stream, bytes);
  return put(stream, "memset", [=] { std::memset(shadow(to), value, bytes); });
}

}  // namespace
}  // namespace pretend

using pretend::result;
using pretend::stream_of;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  PRETEND_ENTER();
  return result(pretend::copy({.to = to, .from = from, .bytes = bytes}, kind, stream_of(stream), false));
}

// No capture of a non-blocking stream forbids it (driver 580 on an H100; not documented).
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  PRETEND_ENTER();
  return result(pretend::copy({.to = to, .from = from, .bytes = bytes}, kind, stream_of(nullptr), true));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  PRETEND_ENTER();
  return result(
      pretend::copy({.to = to, .from = from, .bytes = bytes}, cudaMemcpyDeviceToDevice, stream_of(stream), false));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  PRETEND_ENTER();
  return result(pretend::fill(to, value, bytes, stream_of(stream)));
}

// Asynchronous with respect to the host, too, since the target is a device's (as above, "Memset").
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  PRETEND_ENTER();
  return result(pretend::fill(to, value, bytes, stream_of(nullptr)));
}

}  // extern "C"

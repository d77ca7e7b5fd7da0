// SPDX-License-Identifier: MIT
// What the pretend libraries ask of the engine, which is in the pretend libcudart.so.13. They all link it.
//
// A device address is only a number. It lies in a range that nobody may touch (PROT_NONE), so host code that follows it
// crashes, as it would with a GPU; the bytes are in the device's shadow, which has the same layout. A stream is a queue
// with a thread of its own: what is enqueued there is work, a function that translates the addresses that it was given
// with shadow() when it runs. Every function may be called from every thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

namespace pretend {

using Work = std::function<void()>;

// Adds work to a stream, or a node to the graph that it is captured into, which runs it at every replay: so a captured
// work must bear to run several times, and to be destroyed with the graph. `name` must live for ever. An exception of
// the work fails the device. Returns what a launch would: the device's error, or that the capture is broken.
cudaError_t enqueue(cudaStream_t stream, const char* name, Work work);

// Waits as cudaStreamSynchronize does, which fails where the stream is captured.
cudaError_t wait(cudaStream_t stream);

bool is_capturing(cudaStream_t stream);

// The bytes behind a device address. Any other address stays as it is.
void* shadow(const void* address);
template <class T>
T* shadow(T* address) {
  return static_cast<T*>(shadow(static_cast<const void*>(address)));
}

// The index, among those that this process sees, of the device that the address belongs to; -1 for the host's.
int device_of(const void* address);

int current_device();  // of the calling thread
int count_devices();
std::string bus_id(int device);  // "0000:10:00.0": equal in all processes that see this device, whatever its index

// Ends the device as a failed kernel does: from now on each of its calls returns `error`. The text is logged.
void fail_device(int device, cudaError_t error, const std::string& text);

// What PRETEND_FAIL orders for this call, and counts the call. Each function of a pretended library asks first, by its
// own name.
//
// - PRETEND_FAIL=FUNCTION:CALL:WHAT,... is about the CALLth call of FUNCTION, from 1; FUNCTION "any" is all together.
// - PRETEND_FAIL_DEVICE=INDEX: only calls of threads whose device is this one count.
// - PRETEND_FAIL_THREAD=NAME: only calls of threads whose name begins so count; c10d's watchdog is "pt_nccl_watchdg".
//
// WHAT: a number is the error that the call returns, `error` the library's usual one. `hang`: the call never returns;
// `kill`: it is the process's last; both happen here. `late`: the call returns well, and its work fails. `stall`: its
// work never ends.
struct Order {
  enum Kind { kNone, kError, kLate, kStall } kind = kNone;
  int error = 0;  // for kError and kLate
};
Order ordered(const char* function, int usual_error);

// PRETEND_<name> of the environment; `otherwise` where it is not set or empty. Ends the process where a number is asked
// for and none is there.
int64_t setting(const char* name, int64_t otherwise);
std::string setting(const char* name, const char* otherwise);

// To stderr, one line, where PRETEND_LOG is at least `level` (1 unless set): 0 is for what a test must not miss.
void log(int level, const char* format, ...) __attribute__((format(printf, 2, 3)));

// A line of PRETEND_TRACE's file, <file>.<pid>, where that is set: KIND, NAME, device, stream, bytes with tabs between.
// Kinds: call, launch, copy, graph, host_wait, allocate, free and run (a stream's thread begins what was enqueued
// there).
void trace(const char* kind, const char* name, int device, const void* stream = nullptr, size_t bytes = 0);

}  // namespace pretend

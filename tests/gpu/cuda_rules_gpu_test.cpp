// SPDX-License-Identifier: MIT
// What CUDA's documentation says of captures, events and errors, a row for each rule, or what a driver did of which it
// says nothing. The pretend GPUs (tests/pretend_gpu) follow these rules: a row that fails on a real GPU says what to
// change there. tools/gpu_check asks there.
#include "gpu/gpu_test.h"

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

// CUDA's runtime is loaded with the GPU backend, and not before.
template <class Function>
Function* runtime_function(const char* name) {
  static void* const library = ::dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  void* found = library ? ::dlsym(library, name) : nullptr;
  if (!found) throw std::runtime_error(std::string("libcudart.so.13 has no ") + name);
  return reinterpret_cast<Function*>(found);
}
#define CUDA(function, ...) (runtime_function<decltype(function)>(#function)(__VA_ARGS__))

// What the rows use. Streams are non-blocking, as LibTorch's are.
struct Things {
  Things() {
    for (auto* stream : {&a, &b}) CUDA(cudaStreamCreateWithFlags, stream, cudaStreamNonBlocking);
    for (auto* event : {&e, &f}) CUDA(cudaEventCreateWithFlags, event, cudaEventDefault);
    CUDA(cudaMalloc, &memory, kBytes);
  }
  ~Things() {
    for (auto* stream : {a, b}) {
      cudaGraph_t left = nullptr;
      CUDA(cudaStreamEndCapture, stream, &left);
      if (left) CUDA(cudaGraphDestroy, left);
    }
    for (auto* event : {e, f}) CUDA(cudaEventDestroy, event);
    for (auto* stream : {a, b}) CUDA(cudaStreamDestroy, stream);
    CUDA(cudaFree, memory);
    CUDA(cudaGetLastError);
  }
  Things(const Things&) = delete;
  Things& operator=(const Things&) = delete;

  void begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    CUDA(cudaStreamBeginCapture, stream, mode);
  }
  cudaError_t end(cudaStream_t stream) {
    const auto error = CUDA(cudaStreamEndCapture, stream, &graph);
    if (graph) CUDA(cudaGraphDestroy, graph);
    graph = nullptr;
    return error;
  }
  cudaError_t fill(cudaStream_t stream) { return CUDA(cudaMemsetAsync, memory, 0, kBytes, stream); }
  void fork(cudaStream_t from, cudaStream_t to) {
    CUDA(cudaEventRecord, e, from);
    CUDA(cudaStreamWaitEvent, to, e, 0);
  }
  void record_in_a_capture() {  // that is over
    begin(a);
    CUDA(cudaEventRecord, e, a);
    end(a);
  }
  cudaError_t copy() { return CUDA(cudaMemcpy, memory, pageable.data(), pageable.size(), cudaMemcpyHostToDevice); }
  cudaError_t allocate() {
    void* more = nullptr;
    const auto error = CUDA(cudaMalloc, &more, kBytes);
    if (more) CUDA(cudaFree, more);
    return error;
  }
  cudaError_t status(cudaStream_t stream, cudaStreamCaptureStatus expected) {
    cudaStreamCaptureStatus found{};
    const auto error = CUDA(cudaStreamIsCapturing, stream, &found);
    return error == cudaSuccess && found != expected ? cudaErrorUnknown : error;
  }

  static constexpr size_t kBytes = 1 << 20;
  cudaStream_t a{}, b{};
  cudaEvent_t e{}, f{};
  cudaGraph_t graph{};
  void* memory = nullptr;
  std::array<char, 64> pageable{};
};

struct Rule {
  const char* name;    // of the test
  const char* source;  // document and place
  cudaError_t expected;
  std::function<cudaError_t(Things&)> ask;  // returns the error that the rule is of
};

std::ostream& operator<<(std::ostream& out, const Rule& rule) { return out << rule.name << " (" << rule.source << ")"; }

constexpr auto kGuide = "CUDA C++ Programming Guide, Creating a Graph Using Stream Capture";
constexpr auto kBegin = "Runtime API, cudaStreamBeginCapture";
constexpr auto kEnd = "Runtime API, cudaStreamEndCapture";
constexpr auto kMode = "Runtime API, cudaThreadExchangeStreamCaptureMode";
constexpr auto kSeen = "driver 580 on an H100";  // the documentation says nothing of it
constexpr auto kErrors = "Runtime API, cudaError";
constexpr auto kGlobal = cudaStreamCaptureModeGlobal, kOwnThread = cudaStreamCaptureModeThreadLocal,
               kRelaxed = cudaStreamCaptureModeRelaxed;

cudaError_t in_another_thread(const std::function<cudaError_t()>& call) {
  auto error = cudaSuccess;
  std::thread([&] { error = call(); }).join();
  return error;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"TheLegacyStreamCannotBeCaptured", kBegin, cudaErrorStreamCaptureUnsupported,
       [](Things&) { return CUDA(cudaStreamBeginCapture, nullptr, kGlobal); }},
      {"AStreamIsCapturedOnce", kBegin, cudaErrorIllegalState,
       [](Things& at) { return at.begin(at.a), CUDA(cudaStreamBeginCapture, at.a, kGlobal); }},
      {"WhatDidNotBeginCannotEnd", kEnd, cudaErrorIllegalState, [](Things& at) { return at.end(at.a); }},
      {"AnEmptyCaptureEnds", kEnd, cudaSuccess, [](Things& at) { return at.begin(at.a), at.end(at.a); }},
      {"ACaptureTakesWork", kGuide, cudaSuccess, [](Things& at) { return at.begin(at.a), at.fill(at.a); }},
      {"ACaptureUnderWayIsActive", "Runtime API, cudaStreamIsCapturing", cudaSuccess,
       [](Things& at) { return at.begin(at.a), at.status(at.a, cudaStreamCaptureStatusActive); }},
      {"AForkThatIsJoinedEnds", kGuide, cudaSuccess,
       [](Things& at) {
         at.begin(at.a);
         at.fork(at.a, at.b);
         at.fill(at.b);
         at.fork(at.b, at.a);
         return at.end(at.a);
       }},
      {"AForkIsCapturedToo", kGuide, cudaSuccess,
       [](Things& at) {
         at.begin(at.a);
         at.fork(at.a, at.b);
         return at.status(at.b, cudaStreamCaptureStatusActive);
       }},
      {"AForkMustBeJoined", kErrors, cudaErrorStreamCaptureUnjoined,
       [](Things& at) {
         at.begin(at.a);
         at.fork(at.a, at.b);
         at.fill(at.b);
         return at.end(at.a);
       }},
      {"TheStreamThatBeganEnds", kErrors, cudaErrorStreamCaptureUnmatched,
       [](Things& at) {
         at.begin(at.a);
         at.fork(at.a, at.b);
         return at.end(at.b);
       }},
      {"TheThreadThatBeganEnds", kErrors, cudaErrorStreamCaptureWrongThread,
       [](Things& at) { return at.begin(at.a, kOwnThread), in_another_thread([&] { return at.end(at.a); }); }},
      {"AnyThreadEndsARelaxedCapture", kEnd, cudaSuccess,
       [](Things& at) { return at.begin(at.a, kRelaxed), in_another_thread([&] { return at.end(at.a); }); }},
      {"TwoCapturesDoNotMerge", kErrors, cudaErrorStreamCaptureMerge,
       [](Things& at) {
         at.begin(at.a);
         at.begin(at.b);
         CUDA(cudaEventRecord, at.e, at.a);
         return CUDA(cudaStreamWaitEvent, at.b, at.e, 0);
       }},
      {"WorkOutsideIsNotWaitedFor", kErrors, cudaErrorStreamCaptureIsolation,
       [](Things& at) {
         CUDA(cudaEventRecord, at.e, at.b);
         at.begin(at.a);
         return CUDA(cudaStreamWaitEvent, at.a, at.e, 0);
       }},
      {"ACapturedStreamIsNotWaitedFor", kGuide, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), CUDA(cudaStreamSynchronize, at.a); }},
      {"ACapturedStreamIsNotAsked", kGuide, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), CUDA(cudaStreamQuery, at.a); }},
      {"ADeviceWithACapturedStreamIsNotWaitedFor", kGuide, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), CUDA(cudaDeviceSynchronize); }},
      {"ABrokenCaptureGivesNoGraph", kEnd, cudaErrorStreamCaptureInvalidated,
       [](Things& at) { return at.begin(at.a), CUDA(cudaStreamSynchronize, at.a), at.end(at.a); }},
      {"ABrokenCaptureTakesNoWork", kErrors, cudaErrorStreamCaptureInvalidated,
       [](Things& at) { return at.begin(at.a), CUDA(cudaStreamSynchronize, at.a), at.fill(at.a); }},
      {"ABrokenCaptureSaysSo", "Runtime API, cudaStreamIsCapturing", cudaSuccess,
       [](Things& at) {
         at.begin(at.a);
         CUDA(cudaStreamSynchronize, at.a);
         return at.status(at.a, cudaStreamCaptureStatusInvalidated);
       }},
      {"AnEventOfACaptureIsNotWaitedFor", kErrors, cudaErrorCapturedEvent,
       [](Things& at) {
         at.begin(at.a, kRelaxed);
         CUDA(cudaEventRecord, at.e, at.a);
         return CUDA(cudaEventSynchronize, at.e);
       }},
      {"AnEventOfACaptureIsNotAsked", kErrors, cudaErrorCapturedEvent,
       [](Things& at) {
         at.begin(at.a, kRelaxed);
         CUDA(cudaEventRecord, at.e, at.a);
         return CUDA(cudaEventQuery, at.e);
       }},
      {"AnEventOfACaptureThatIsOverIsNotAsked", kSeen, cudaErrorInvalidValue,
       [](Things& at) { return at.record_in_a_capture(), CUDA(cudaEventQuery, at.e); }},
      {"AnEventOfACaptureThatIsOverIsNotWaitedFor", kSeen, cudaErrorInvalidValue,
       [](Things& at) { return at.record_in_a_capture(), CUDA(cudaEventSynchronize, at.e); }},
      {"NoStreamWaitsForAnEventOfACaptureThatIsOver", kSeen, cudaErrorInvalidValue,
       [](Things& at) { return at.record_in_a_capture(), CUDA(cudaStreamWaitEvent, at.b, at.e, 0); }},
      {"AnEventOfACaptureThatIsOverIsRecordedAnew", kSeen, cudaSuccess,
       [](Things& at) {
         at.record_in_a_capture();
         CUDA(cudaEventRecord, at.e, at.b);
         return CUDA(cudaEventSynchronize, at.e);
       }},
      {"TimeIsNoneOfACapture", kErrors, cudaErrorCapturedEvent,
       [](Things& at) {
         CUDA(cudaEventRecord, at.f, at.b);
         at.begin(at.a, kRelaxed);
         CUDA(cudaEventRecord, at.e, at.a);
         float milliseconds = 0;
         return CUDA(cudaEventElapsedTime, &milliseconds, at.f, at.e);
       }},
      {"AGlobalCaptureForbidsToAskEvents", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) {
         CUDA(cudaEventRecord, at.e, at.b);
         at.begin(at.a);
         return CUDA(cudaEventQuery, at.e);
       }},
      {"AGlobalCaptureForbidsToAskStreams", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), CUDA(cudaStreamQuery, at.b); }},
      {"AGlobalCaptureForbidsToWaitForOtherStreams", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), CUDA(cudaStreamSynchronize, at.b); }},
      {"AGlobalCaptureForbidsToFree", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), CUDA(cudaFree, std::exchange(at.memory, nullptr)); }},
      {"AGlobalCaptureForbidsToLockPages", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) {
         at.begin(at.a);
         void* memory = nullptr;
         return CUDA(cudaHostAlloc, &memory, Things::kBytes, cudaHostAllocDefault);
       }},
      {"AGlobalCaptureForbidsAllocations", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), at.allocate(); }},
      {"AGlobalCaptureForbidsThemToOtherThreads", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a), in_another_thread([&] { return at.allocate(); }); }},
      {"ACaptureOfAThreadForbidsThemToIt", kMode, cudaErrorStreamCaptureUnsupported,
       [](Things& at) { return at.begin(at.a, kOwnThread), at.allocate(); }},
      {"ACaptureOfAThreadAllowsThemToOthers", kMode, cudaSuccess,
       [](Things& at) { return at.begin(at.a, kOwnThread), in_another_thread([&] { return at.allocate(); }); }},
      {"ARelaxedCaptureAllowsThem", kMode, cudaSuccess,
       [](Things& at) { return at.begin(at.a, kRelaxed), at.allocate(); }},
      {"ARelaxedThreadMayAllocate", kMode, cudaSuccess,
       [](Things& at) {
         at.begin(at.a);
         auto mode = kRelaxed;
         CUDA(cudaThreadExchangeStreamCaptureMode, &mode);
         const auto error = at.allocate();
         CUDA(cudaThreadExchangeStreamCaptureMode, &mode);
         return error;
       }},
      {"AForbiddenCallBreaksTheCapture", kMode, cudaErrorStreamCaptureInvalidated,
       [](Things& at) { return at.begin(at.a), at.allocate(), at.end(at.a); }},
      {"AGlobalCaptureAllowsCopiesThatWait", kSeen, cudaSuccess, [](Things& at) { return at.begin(at.a), at.copy(); }},
      {"ACopyThatWaitsLeavesTheCaptureWhole", kSeen, cudaSuccess,
       [](Things& at) { return at.begin(at.a), at.copy(), at.end(at.a); }},
      {"AGlobalCaptureAllowsToFillMemory", kSeen, cudaSuccess,
       [](Things& at) { return at.begin(at.a), CUDA(cudaMemset, at.memory, 0, Things::kBytes); }},
      {"ACallbackCannotBeCaptured", "Runtime API, cudaStreamAddCallback", cudaErrorStreamCaptureUnsupported,
       [](Things& at) {
         at.begin(at.a);
         return CUDA(cudaStreamAddCallback, at.a, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
       }},
      {"AnEventThatWasNeverRecordedHasPassed", "Runtime API, cudaEventQuery", cudaSuccess,
       [](Things& at) { return CUDA(cudaEventQuery, at.e); }},
      {"AnEventThatWasNeverRecordedIsNoWork", "Runtime API, cudaStreamWaitEvent", cudaSuccess,
       [](Things& at) { return CUDA(cudaStreamWaitEvent, at.a, at.e, 0); }},
      {"TimeIsOfEventsThatWereRecorded", "Runtime API, cudaEventElapsedTime", cudaErrorInvalidResourceHandle,
       [](Things& at) {
         float milliseconds = 0;
         return CUDA(cudaEventElapsedTime, &milliseconds, at.e, at.f);
       }},
      {"MemoryIsFreedOnce", "Runtime API, cudaFree", cudaErrorInvalidValue,
       [](Things&) {
         void* memory = nullptr;
         CUDA(cudaMalloc, &memory, Things::kBytes);
         return CUDA(cudaFree, memory), CUDA(cudaFree, memory);
       }},
      {"MemoryIsFreedFromItsBegin", "Runtime API, cudaFree", cudaErrorInvalidValue,
       [](Things& at) { return CUDA(cudaFree, static_cast<char*>(at.memory) + 256); }},
      {"NothingIsFreedWell", "Runtime API, cudaFree", cudaSuccess, [](Things&) { return CUDA(cudaFree, nullptr); }},
      {"NoBytesAreAllocatedWell", "Runtime API, cudaMalloc", cudaSuccess,
       [](Things&) {
         void* memory = nullptr;
         return CUDA(cudaMalloc, &memory, 0);
       }},
      {"MoreThanThereIsCannotBeAllocated", "Runtime API, cudaMalloc", cudaErrorMemoryAllocation,
       [](Things&) {
         void* memory = nullptr;
         return CUDA(cudaMalloc, &memory, size_t{1} << 50);
       }},
      {"ADeviceThatIsNotThereCannotBeSet", "Runtime API, cudaSetDevice", cudaErrorInvalidDevice,
       [](Things&) { return CUDA(cudaSetDevice, 1000); }},
      {"ALastErrorIsReportedOnce", "Runtime API, cudaGetLastError", cudaSuccess,
       [](Things&) {
         CUDA(cudaSetDevice, 1000);
         return CUDA(cudaGetLastError), CUDA(cudaGetLastError);
       }},
  };
  return all;
}

class CudaRules : public testing::Gpu, public ::testing::WithParamInterface<Rule> {};

TEST_P(CudaRules, AreWhatTheDocumentationSays) {
  const auto& rule = GetParam();
  Things things;
  const auto found = rule.ask(things);
  EXPECT_EQ(found, rule.expected) << CUDA(cudaGetErrorName, found) << ", where " << rule.source << " has "
                                  << CUDA(cudaGetErrorName, rule.expected);
}

INSTANTIATE_TEST_SUITE_P(Documented, CudaRules, ::testing::ValuesIn(rules()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace ddprun

// SPDX-License-Identifier: MIT
// The errors that the pretend libraries return, with the words that libcudart 13.0 has for them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};

#define PRETEND_ERROR(name, text) {name, #name, text}
constexpr ErrorText kErrors[] = {
    PRETEND_ERROR(cudaSuccess, "no error"),
    PRETEND_ERROR(cudaErrorInvalidValue, "invalid argument"),
    PRETEND_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    PRETEND_ERROR(cudaErrorInitializationError, "initialization error"),
    PRETEND_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    PRETEND_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    PRETEND_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    PRETEND_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    PRETEND_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    PRETEND_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    PRETEND_ERROR(cudaErrorNotReady, "device not ready"),
    PRETEND_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    PRETEND_ERROR(cudaErrorAssert, "device-side assert triggered"),
    PRETEND_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    PRETEND_ERROR(cudaErrorNotSupported, "operation not supported"),
    PRETEND_ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
    PRETEND_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    PRETEND_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    PRETEND_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    PRETEND_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    PRETEND_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    PRETEND_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    PRETEND_ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    PRETEND_ERROR(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
};

const ErrorText* found(cudaError_t error) {
  const auto* at =
      std::find_if(std::begin(kErrors), std::end(kErrors), [&](const auto& each) { return each.error == error; });
  return at == std::end(kErrors) ? nullptr : at;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return found(error) ? found(error)->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  return found(error) ? found(error)->text : "unrecognized error code";
}

}  // extern "C"

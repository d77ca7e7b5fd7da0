// SPDX-License-Identifier: MIT
#include "pretend_gpu/cudart/capture.h"

#include <algorithm>

namespace pretend {
namespace {

std::vector<std::shared_ptr<Capture>>& captures() {  // those under way
  static auto& all = *new std::vector<std::shared_ptr<Capture>>;
  return all;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

// The first node that does not lead to the origin's last, or none: each fork must be joined to the stream that the
// capture began on (driver_types.h, cudaErrorStreamCaptureUnjoined).
const Node* unjoined(const Graph& graph, const std::set<size_t>& heads) {
  std::vector<bool> joined(graph.nodes.size());
  std::vector<size_t> open(heads.begin(), heads.end());
  while (!open.empty()) {
    const auto node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    open.insert(open.end(), graph.nodes[node].parents.begin(), graph.nodes[node].parents.end());
  }
  const auto loose = std::find(joined.begin(), joined.end(), false);
  return loose == joined.end() ? nullptr : &graph.nodes[static_cast<size_t>(loose - joined.begin())];
}

}  // namespace

std::mutex& captures_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

cudaError_t put(Stream& stream, const char* name, Work work) {
  {
    const std::scoped_lock lock(captures_mutex());
    if (stream.capture) {
      if (stream.capture->broken) return cudaErrorStreamCaptureInvalidated;
      auto& nodes = stream.capture->graph->nodes;
      nodes.push_back({.name = name, .work = std::move(work), .parents = stream.heads});
      stream.heads = {nodes.size() - 1};
      return cudaSuccess;
    }
  }
  stream.put(name, std::move(work));
  return cudaSuccess;
}

void break_capture(Capture& capture, const char* why) {
  if (!capture.broken) log(1, "capture %llu is invalid from here: %s", capture.id, why);
  capture.broken = true;
}

cudaError_t refuse_captured(Stream& stream, const char* function) {
  const std::scoped_lock lock(captures_mutex());
  if (!stream.capture) return cudaSuccess;
  break_capture(*stream.capture, function);
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t refuse_captured(const Device& device, const char* function) {
  const std::scoped_lock lock(captures_mutex());
  bool captured = false;
  for (const auto& capture : captures()) {
    if (&capture->origin->device != &device) continue;
    break_capture(*capture, function);
    captured = true;
  }
  return captured ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t refuse_unsafe(const char* function) {
  const std::scoped_lock lock(captures_mutex());
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool forbidden = false;
  for (const auto& capture : captures()) {
    const bool own = capture->thread == std::this_thread::get_id() && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool of_others = thread_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (!own && !of_others) continue;
    break_capture(*capture, function);
    forbidden = true;
  }
  return forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

// A stream joins a capture when it waits for one of its events (Programming Guide, "Cross-stream Dependencies and
// Events"); it cannot be in two (driver_types.h, cudaErrorStreamCaptureMerge).
bool is_over(const std::shared_ptr<Capture>& capture) {
  const auto& all = captures();
  return std::find(all.begin(), all.end(), capture) == all.end();
}

cudaError_t join_capture(Stream& stream, const std::shared_ptr<Capture>& capture, const std::set<size_t>& heads) {
  if (capture->broken) return cudaErrorStreamCaptureInvalidated;
  if (is_over(capture)) return cudaErrorInvalidValue;
  if (!stream.capture) {
    stream.capture = capture;
    stream.heads.clear();
    capture->streams.push_back(&stream);
  } else if (stream.capture != capture) {
    break_capture(*capture, "two captures would merge");
    return cudaErrorStreamCaptureMerge;
  }
  stream.heads.insert(heads.begin(), heads.end());
  return cudaSuccess;
}

bool is_capturing(cudaStream_t stream) {
  const std::scoped_lock lock(captures_mutex());
  return stream_of(stream).capture != nullptr;
}

}  // namespace pretend

using pretend::captures_mutex;
using pretend::Graph;
using pretend::result;
using pretend::stream_of;

extern "C" {

// The legacy stream cannot be captured, nor a stream twice (cuda_runtime_api.h, cudaStreamBeginCapture).
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  PRETEND_ENTER();
  auto& on = stream_of(stream);
  if (&on == on.device.streams.front()) return result(cudaErrorStreamCaptureUnsupported);
  const std::scoped_lock lock(captures_mutex());
  if (on.capture) return result(cudaErrorIllegalState);
  static unsigned long long last_id = 0;
  on.capture = std::make_shared<pretend::Capture>();
  on.capture->id = ++last_id;
  on.capture->mode = mode;
  on.capture->thread = std::this_thread::get_id();
  on.capture->origin = &on;
  on.capture->streams.push_back(&on);
  on.heads.clear();
  pretend::captures().push_back(on.capture);
  return cudaSuccess;
}

// It must be the stream that the capture began on, and the thread, where the mode is not relaxed; a broken capture
// gives no graph (cuda_runtime_api.h, cudaStreamEndCapture).
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  PRETEND_ENTER();
  *out = nullptr;
  auto& on = stream_of(stream);
  const std::scoped_lock lock(captures_mutex());
  const auto capture = on.capture;
  if (!capture) return result(cudaErrorIllegalState);
  if (capture->origin != &on) return result(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return result(cudaErrorStreamCaptureWrongThread);
  }
  const auto* loose = pretend::unjoined(*capture->graph, on.heads);
  for (auto* member : capture->streams) {
    member->capture = nullptr;
    member->heads.clear();
  }
  std::erase(pretend::captures(), capture);
  if (capture->broken) return result(cudaErrorStreamCaptureInvalidated);
  if (loose) {
    pretend::log(1, "%s has not rejoined the stream that the capture began on", loose->name);
    return result(cudaErrorStreamCaptureUnjoined);
  }
  *out = reinterpret_cast<cudaGraph_t>(new std::shared_ptr<Graph>(capture->graph));
  return cudaSuccess;
}

// The graph that is given out belongs to the capture. Nobody here adds nodes to it by hand, so the dependencies stay
// unreported.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  PRETEND_ENTER();
  auto& on = stream_of(stream);
  const std::scoped_lock lock(captures_mutex());
  const auto capture = on.capture.get();
  *status = !capture          ? cudaStreamCaptureStatusNone
            : capture->broken ? cudaStreamCaptureStatusInvalidated
                              : cudaStreamCaptureStatusActive;
  if (id && capture) *id = capture->id;
  if (graph) *graph = capture ? reinterpret_cast<cudaGraph_t>(&capture->graph) : nullptr;
  if (dependencies) *dependencies = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, pretend::thread_mode);
  return cudaSuccess;
}

}  // extern "C"

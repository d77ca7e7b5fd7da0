// SPDX-License-Identifier: MIT
// Reports a worker's progress to its launcher through a small mapped file: a worker that hangs cannot report it itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace ddprun {

// Listed in the order in which a worker passes them with the same number of steps done: the step's end comes first,
// then the beginning of the next. Starting may take any time; connecting the GPUs happens in the middle of it.
enum class Activity : int32_t { kStarting, kConnecting, kAgreeing, kEvaluating, kSaving, kLoadingData, kComputing };

const char* name_of(Activity activity);  // "loading data"

struct Beat {
  Activity activity = Activity::kStarting;
  int64_t step = 0;  // optimizer steps done
  std::chrono::steady_clock::time_point at;
};

// The worker's side, for one thread: it begins with a beat of kStarting. If the file cannot be created, beats are
// dropped.
class HeartbeatWriter {
 public:
  explicit HeartbeatWriter(const std::filesystem::path& file);
  ~HeartbeatWriter();
  HeartbeatWriter(const HeartbeatWriter&) = delete;
  HeartbeatWriter& operator=(const HeartbeatWriter&) = delete;

  void beat(Activity activity, int64_t step) noexcept;  // takes some tens of nanoseconds

 private:
  struct Pulse* pulse_ = nullptr;
};

// Returns the last beat, or nothing if there was none.
std::optional<Beat> read_beat(const std::filesystem::path& file);

}  // namespace ddprun

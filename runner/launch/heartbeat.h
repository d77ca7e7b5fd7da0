// SPDX-License-Identifier: MIT
// How far a worker is, told to its launcher through a small mapped file: a worker that hangs cannot say so itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace ddprun {

// In the order in which a worker goes through them with one and the same number of steps done: the step's end comes
// first, then the beginning of the next. Starting may take as long as it likes; connecting the GPUs comes in the middle
// of it.
enum class Activity : int32_t { kStarting, kConnecting, kAgreeing, kEvaluating, kSaving, kLoadingData, kComputing };

const char* name_of(Activity activity);  // "loading data"

struct Beat {
  Activity activity = Activity::kStarting;
  int64_t step = 0;  // optimizer steps done
  std::chrono::steady_clock::time_point at;
};

// The worker's side; one thread. Where the file cannot be made, beats go nowhere.
class HeartbeatWriter {
 public:
  explicit HeartbeatWriter(const std::filesystem::path& file);
  ~HeartbeatWriter();
  HeartbeatWriter(const HeartbeatWriter&) = delete;
  HeartbeatWriter& operator=(const HeartbeatWriter&) = delete;

  void beat(Activity activity, int64_t step) noexcept;  // some tens of nanoseconds

 private:
  struct Pulse* pulse_ = nullptr;
};

// The last beat; nothing before the first, and where nobody beats.
std::optional<Beat> read_beat(const std::filesystem::path& file);

}  // namespace ddprun

// SPDX-License-Identifier: MIT
#include "launch/heartbeat.h"

#include "base/spawn.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace ddprun {

// Shared memory of both sides. The steady clock's times are the machine's, not the process's. The sequence is odd while
// a beat is being written.
struct Pulse {
  std::atomic<uint32_t> sequence;
  std::atomic<int32_t> activity;
  std::atomic<int64_t> step;
  std::atomic<int64_t> at;
};

static_assert(std::atomic<int64_t>::is_always_lock_free, "shared between processes");

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

const char* name_of(Activity activity) {
  constexpr std::array kNames{"starting", "connecting",   "agreeing", "evaluating",
                              "saving",   "loading data", "computing"};
  const auto index = static_cast<size_t>(activity);
  return index < kNames.size() ? kNames[index] : "unknown";
}

HeartbeatWriter::HeartbeatWriter(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  // Reserves the disk space: writing to a mapped file on a full disk is SIGBUS.
  if (!fd.open() || ::posix_fallocate(fd.get(), 0, sizeof(Pulse)) != 0) return;
  void* mapped = ::mmap(nullptr, sizeof(Pulse), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped != MAP_FAILED) pulse_ = static_cast<Pulse*>(mapped);
  beat(Activity::kStarting, 0);  // a worker may hang before it comes to its next one
}

HeartbeatWriter::~HeartbeatWriter() {
  if (pulse_) ::munmap(pulse_, sizeof(Pulse));
}

void HeartbeatWriter::beat(Activity activity, int64_t step) noexcept {
  if (!pulse_) return;
  const auto sequence = pulse_->sequence.load(std::memory_order_relaxed);
  pulse_->sequence.store(sequence + 1);
  pulse_->activity.store(static_cast<int32_t>(activity));
  pulse_->step.store(step);
  pulse_->at.store(Clock::now().time_since_epoch().count());
  pulse_->sequence.store(sequence + 2);
}

std::optional<Beat> read_beat(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.open() || ::lseek(fd.get(), 0, SEEK_END) < static_cast<off_t>(sizeof(Pulse))) return std::nullopt;
  void* mapped = ::mmap(nullptr, sizeof(Pulse), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  const auto* pulse = static_cast<const Pulse*>(mapped);
  std::optional<Beat> beat;
  for (int tries = 0; tries < 100 && !beat; ++tries) {  // a worker that dies in the middle of a beat leaves it odd
    const auto before = pulse->sequence.load();
    const Beat read{static_cast<Activity>(pulse->activity.load()), pulse->step.load(),
                    Clock::time_point(Clock::duration(pulse->at.load()))};
    if (before > 0 && before % 2 == 0 && pulse->sequence.load() == before) beat = read;
  }
  ::munmap(mapped, sizeof(Pulse));
  return beat;
}

}  // namespace ddprun

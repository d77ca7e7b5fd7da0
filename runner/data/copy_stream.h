// SPDX-License-Identifier: MIT
// Copies batches to a GPU beside what it computes for earlier ones: on a stream of their own, which the thread's
// current stream then waits for. On the stream of the steps, a copy would begin when the step before it has ended.
#pragma once

#include <ddprun/batch.h>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

namespace ddprun {

class CopyStream {
 public:
  // Does nothing on the CPU. Used from the thread that uses the batches.
  explicit CopyStream(c10::Device device);

  // Returns the batch on the device; the index stays on the CPU. Does not wait for copies from page-locked memory.
  Batch copied(Batch batch);

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;  // nothing on the CPU
  std::optional<c10::Event> done_;
};

}  // namespace ddprun

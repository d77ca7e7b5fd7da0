// SPDX-License-Identifier: MIT
// Saves checkpoints on a thread of its own, one at a time, while training goes on.
#pragma once

#include "checkpoint/checkpoint_writer.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// Used from the training thread. Every rank starts and awaits the same saves in the same order. Its destructor does not
// wait: a worker that ends by an error must not wait for ranks that are no more; the thread keeps what it needs alive.
class BackgroundSaver {
 public:
  // Called with the writer's points and the step that is saved, on the saving thread; may be null.
  using Observer = std::function<void(std::string_view point, int64_t step)>;

  explicit BackgroundSaver(std::shared_ptr<CheckpointWriter> writer, Observer observer = {})
      : writer_(std::move(writer)), observer_(std::move(observer)) {}

  // CheckpointWriter::save() of this checkpoint, whose tensors stay as they are until wait() returns. No save may be
  // under way. `before_it_counts` is called on the saving thread.
  void start(Checkpoint checkpoint, bool best, std::function<void()> before_it_counts = {});

  // Until the save under way, if any, has ended; rethrows once what it threw. `alive`, which may be null, is called
  // when waiting begins and each time the save comes to another of the writer's points: a slow disk is not a hang.
  void wait(const std::function<void()>& alive);

  // Whether the save under way has ended by an exception, which wait() will throw.
  bool failed() const;

  // CheckpointWriter::warnings() of all saves that have been awaited since the last call.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  struct Progress;

  std::shared_ptr<CheckpointWriter> writer_;
  Observer observer_;
  std::shared_ptr<Progress> progress_;  // of the save under way; null: none
  std::vector<std::string> warnings_;
};

}  // namespace ddprun

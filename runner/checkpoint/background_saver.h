// SPDX-License-Identifier: MIT
// Saves checkpoints on a thread of its own, one at a time, while training continues.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// Used from the training thread. Every rank starts and awaits the same saves in the same order. The destructor does not
// wait, because a worker that ends with an error must not wait for dead ranks; the thread keeps what it needs alive.
class BackgroundSaver {
 public:
  // Called on the saving thread with the writer's points and the step being saved; may be null.
  using Observer = std::function<void(std::string_view point, int64_t step)>;

  explicit BackgroundSaver(std::shared_ptr<CheckpointWriter> writer, Observer observer = {})
      : writer_(std::move(writer)), observer_(std::move(observer)) {}

  // Runs CheckpointWriter::save() for this checkpoint, whose tensors must not change until wait() returns. No save may
  // be in progress. `before_it_counts` is called on the saving thread.
  void start(Checkpoint checkpoint, bool best, std::function<void()> before_it_counts = {});

  // Waits for the save in progress, if any, and rethrows once what it threw. `alive`, which may be null, is called when
  // waiting begins and each time the save reaches another of the writer's points: a slow disk is not a hang.
  void wait(const std::function<void()>& alive);

  // Returns true if the save has ended with an exception, which wait() will throw.
  bool failed() const;

  // Returns CheckpointWriter::warnings() of all saves awaited since the last call.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  struct Progress;

  std::shared_ptr<CheckpointWriter> writer_;
  Observer observer_;
  std::shared_ptr<Progress> progress_;  // of the save in progress; null: none
  std::vector<std::string> warnings_;
};

// A checkpoint that does not change while training continues: copies in host memory that is reused each time.
class Snapshot {
 public:
  // Call on a rank that writes some of the run's files. The result shares its memory with the previous one, which
  // nobody may still be reading, and Checkpoint::ranks with `live`.
  Checkpoint take(const Checkpoint& live);

 private:
  TensorDict model_, average_, optimizer_;
};

}  // namespace ddprun
